"""Creates the tenants of a benchmark in the running installation.

The benchmark creates the tenants with Admit's services, and deletes them afterwards.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from loadtest.certificates import ClientFiles
from loadtest.installation import Installation, delete_logs
from loadtest.processes import BenchError
from loadtest.radius_client import RadiusClient, Target
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant, policy_document
from loadtest.workloads import BENCH_NAS, StatusServer
from nac.certificates import service as certificates
from nac.certificates.issuance import issue_client
from nac.certificates.service import build_pem_files
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import NoFreeSlot
from nac.kit.ids import MspId, TenantId
from nac.models import Endpoint as EndpointRow
from nac.models import EndpointGroupMember
from nac.onboarding import tenant_purge
from nac.onboarding.provisioning import provision_tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants

ACTOR = "bench"
MSP = "bench"
_SITE = "main"
_POLICY = "bench"
_LIVE_SECONDS = 180
_SLOT_SECONDS = 60
_EXCHANGE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProvisionedTenant:
    tenant: BenchTenant
    tenant_id: TenantId
    target: Target
    # Server certificate of the tenant, in DER.
    server_certificate: bytes
    clients: Sequence[ClientFiles]
    slot: int
    # Id of the PostgreSQL transaction that created the tenant.
    xact: str


class BenchTenants:
    """Creates tenants. At the end of the `with` block, deletes these tenants and their logs."""

    def __init__(self, installation: Installation, folder: Path, log_line: Callable[[str], None]) -> None:
        """Create the object. `folder` is the folder for the client certificates."""
        self._installation = installation
        self._engine = installation.engine
        self._folder = folder
        self._log_line = log_line

    def __enter__(self) -> "BenchTenants":
        # Delete tenants of an earlier benchmark that was killed.
        self._remove_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._installation.wait_until_shipped()
        self._remove_all()

    def provision(self, tenant: BenchTenant, *, clients: int = 0) -> ProvisionedTenant:
        """Create a tenant with policy, devices and `clients` certificates, in one transaction."""
        installation = self._installation
        with session_scope(PlatformScope(), engine=self._engine) as session:
            row = provision_tenant(
                session, actor=ACTOR, slug=tenant.slug, msp_id=_msp(session), signing=installation.signing
            )
            self._fill(session, row.id, tenant.endpoints)
            issued = [self._issue(session, row.id, f"{tenant.slug}-device-{number}") for number in range(clients)]
            slot = cells.require_slot(session, tenant_id=row.id)
            if slot.cell_id != installation.cell_id:
                raise BenchError(f"tenant {tenant.slug} is in another cell; the benchmark can measure only one cell")
            secret = installation.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot))
            target = Target(installation.settings.listen_address, slot.auth_port, slot.acct_port, secret)
            server = _server_certificate(session, row.id)
            xact = cells.get_current_xact(session)
        return ProvisionedTenant(tenant, row.id, target, server, issued, int(slot.number), xact)

    def provision_when_free(self, tenant: BenchTenant, *, clients: int = 0) -> ProvisionedTenant:
        """Create a tenant as soon as the cell has a free slot.

        The slot of a deleted tenant is free after the agent replaces radiusd.
        """
        deadline = time.monotonic() + _SLOT_SECONDS
        while True:
            try:
                return self.provision(tenant, clients=clients)
            except NoFreeSlot as error:
                if time.monotonic() > deadline:
                    raise BenchError(
                        f"the cell has no free slot for {tenant.slug}: remove a tenant, or start it with more slots"
                    ) from error
                time.sleep(1)

    def wait_live(self, made: ProvisionedTenant) -> None:
        cells.wait_until_live(
            TenantScope(made.tenant_id),
            tenant_id=made.tenant_id,
            xact=made.xact,
            timeout_seconds=_LIVE_SECONDS,
            engine=self._engine,
        )

    def bake(self, made: Sequence[ProvisionedTenant]) -> None:
        """Make the agent replace radiusd, and wait until the new radiusd has loaded the tenants' certificates.

        radiusd loads server certificates when it starts, and those of new tenants at a later restart. To make the agent
        replace radiusd, the function adds a NAS with its own secret.
        """
        with session_scope(TenantScope(made[0].tenant_id), engine=self._engine) as session:
            site = sites.require_by_slug(session, tenant_id=made[0].tenant_id, slug=_SITE)
            nases.create_nas(
                session,
                actor=ACTOR,
                tenant_id=made[0].tenant_id,
                site_id=site.id,
                name="Bench switch with its own secret",
                # An address for documentation (RFC 5737), which no device uses.
                address="192.0.2.1",
                secret=cells.generate_secret(),
                seal=self._installation.sealer.seal,
            )
        slots = {tenant.slot for tenant in made}
        deadline = time.monotonic() + _EXCHANGE_SECONDS
        with RadiusClient() as client:
            while not (slots <= self._installation.baked_slots()):
                if time.monotonic() > deadline:
                    raise BenchError(
                        "the agent did not replace radiusd after the creation of a NAS: see ./admit status"
                    )
                time.sleep(0.1)
            client.ask(StatusServer(made[0].target))

    def _fill(self, session: Session, tenant_id: TenantId, endpoints: Sequence[BenchEndpoint]) -> None:
        groups = {
            name: ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant_id, name=name).id for name in GROUPS
        }
        site = sites.require_by_slug(session, tenant_id=tenant_id, slug=_SITE)
        nases.create_nas(
            session,
            actor=ACTOR,
            tenant_id=tenant_id,
            site_id=site.id,
            name="Bench switch",
            identifier=BENCH_NAS.identifier,
            seal=self._installation.sealer.seal,
        )
        _insert_endpoints(session, tenant_id, endpoints, groups)
        policy = policies.create_policy(session, actor=ACTOR, tenant_id=tenant_id, slug=_POLICY)
        policies.save_draft(session, actor=ACTOR, tenant_id=tenant_id, slug=_POLICY, document=policy_document())
        policies.publish_policy(session, actor=ACTOR, tenant_id=tenant_id, slug=_POLICY)
        site_settings.assign_policy(session, actor=ACTOR, tenant_id=tenant_id, slug=_SITE, policy_id=policy.id)

    def _issue(self, session: Session, tenant_id: TenantId, name: str) -> ClientFiles:
        issued = issue_client(
            session,
            actor=ACTOR,
            tenant_id=tenant_id,
            profile="eap-client-device",
            common_name=name,
            signing=self._installation.signing,
            now=utc_now(),
        )
        files = build_pem_files(issued)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(files["cert"])
        key.touch(mode=0o600)
        key.write_bytes(files["key"])
        return ClientFiles(name, certificate, key, issued.serial.hex())

    def _remove_all(self) -> None:
        removed = []
        with session_scope(PlatformScope(), engine=self._engine) as session:
            ours = {msp.id for msp in msps.list_msps(session) if msp.slug == MSP}
            doomed = [tenant.id for tenant in tenants.list_tenants(session) if tenant.msp_id in ours]
        for tenant_id in doomed:
            self._log_line(f"removing bench tenant {tenant_id}")
            with session_scope(PlatformScope(), engine=self._engine) as session:
                tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id)
                tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=tenant_id)
            removed.append(tenant_id)
        if removed:
            delete_logs(self._installation.owner, removed)


def _msp(session: Session) -> MspId:
    for msp in msps.list_msps(session):
        if msp.slug == MSP:
            return msp.id
    return msps.create_msp(session, actor=ACTOR, slug=MSP, name="Benchmarks").id


def _server_certificate(session: Session, tenant_id: TenantId) -> bytes:
    """Return the server certificate that the tenant's devices will see, in DER."""
    for row in certificates.list_certificates(session, tenant_id=tenant_id, status="valid"):
        if row.profile == "eap-server" and row.certificate_der is not None:
            return row.certificate_der
    raise BenchError(f"tenant {tenant_id} has no server certificate")


def _insert_endpoints(
    session: Session, tenant_id: TenantId, endpoints: Sequence[BenchEndpoint], groups: Mapping[str, UUID]
) -> None:
    """Insert endpoints in bulk. The endpoint service would take 3 ms for each device, in total several minutes."""
    numbered = [(uuid4(), endpoint) for endpoint in endpoints]
    # PostgreSQL makes the plan for checks of foreign keys once. A plan made for an empty table later reads the whole
    # table for each row, which takes 54 s instead of 14 s.
    session.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    session.execute(
        insert(EndpointRow),
        [{"id": key, "tenant_id": tenant_id, "mac": endpoint.mac, "name": ""} for key, endpoint in numbered],
    )
    session.execute(
        insert(EndpointGroupMember),
        [
            {"tenant_id": tenant_id, "endpoint_id": key, "group_id": groups[endpoint.group]}
            for key, endpoint in numbered
        ],
    )
