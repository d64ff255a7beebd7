"""Creates missing objects of the demo. Objects that people have changed stay changed.

Only files contain the API tokens of the demo, so the demo creates a token again if its file is missing or invalid.
"""

import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.demo import policy
from cli.demo.credentials import (
    CERTIFICATE_PLANS,
    DEVICE,
    EXPIRED,
    NOT_YET_VALID,
    REVOKED,
    WRONG_USAGE,
    Credential,
    CredentialIssuer,
    ensure_unknown_device,
)
from cli.demo.files import FileWriter, read_text
from cli.demo.tools import RadiusServer, network_block, tls_supplicant
from cli.errors import Refused
from nac.accounts import api_tokens
from nac.accounts.api_tokens import TokenText
from nac.accounts.roles import BUILT_IN_ROLES
from nac.certificates.public_lookups import build_locations
from nac.core.access.grants import Owner
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.inventory.users import service as users
from nac.kit.clock import utc_now
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import permissions_at
from nac.models import Policy
from nac.onboarding.provisioning import provision_tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

_LASTS = timedelta(days=90)
_LEFT = timedelta(days=1)


def ensure_token(session: Session, *, actor: str, owner: Owner, role: str, folder: Path, writer: FileWriter) -> str:
    """Return a token with the permissions of `role`, valid for at least a day."""
    now, file = utc_now(), folder / "api_token"
    permissions = BUILT_IN_ROLES[role].at(owner.level)
    text = TokenText.parse(read_text(file).strip())
    if text is not None:
        row = api_tokens.get_valid(session, owner=owner, text=text, now=now + _LEFT)
        if row is not None and set(row.permissions) == permissions:
            return text.reveal()
    made = api_tokens.create_token(
        session,
        actor=actor,
        held=permissions_at(owner.level),
        owner=owner,
        name=f"demo {role}",
        permissions=permissions,
        expires_at=now + _LASTS,
    )
    writer.add(file, f"{made.text}\n")
    return made.text


MSP = "demo"
TENANTS = ("alpha", "bravo")
_POLICY = "office"
# Comment of the demo's own policy versions. The demo updates only these versions.
_COMMENT = "The demo's policy"
STAFF_USER = "sam"
GUEST_USER = "gale"


@dataclass(frozen=True, slots=True)
class DemoDevices:
    """MAC addresses for documentation (RFC 7042 2.1.2), 12 hex digits."""

    printer: str
    blocked: str
    quarantined: str
    # Laptop with certificates, which is not registered as an endpoint.
    laptop: str
    unknown: str

    @classmethod
    def of(cls, number: int) -> "DemoDevices":
        prefix = f"00005e0053{10 + number:x}"
        return cls(*(prefix + digit for digit in "123ef"))


@dataclass(frozen=True, slots=True)
class DemoTenant:
    slug: str
    tenant_id: TenantId
    server: RadiusServer
    # Name that devices check in the server's certificate.
    server_name: str
    folder: Path
    ca: Path
    issuing: Path
    # URLs of the issuing authority's OCSP responder and revocation list, and of the root's revocation list.
    ocsp_url: str
    crl_url: str
    root_crl_url: str
    device: Credential
    revoked: Credential
    expired: Credential
    early: Credential
    misused: Credential
    devices: DemoDevices
    staff_password: str
    guest_password: str
    # Reject delay of the server in seconds, rounded up.
    reject_delay_seconds: int
    # Token of an administrator of the tenant.
    api_token: str

    @property
    def supplicant_file(self) -> Path:
        """Configuration to run eapol_test manually."""
        return self.folder / "eapol_test.conf"


@dataclass(frozen=True, slots=True)
class Demo:
    tenants: tuple[DemoTenant, ...]
    stranger: Credential
    # Token of an administrator of the MSP.
    api_token: str


def seed(domain: CommandContext) -> Demo:
    """Create missing objects of the demo, and wait until the cells use the objects. Repeated calls change nothing."""
    now = utc_now()
    root = domain.settings.var_dir / "demo"
    for slug in TENANTS:
        _ensure_tenant(domain, slug)
    seeded = tuple(
        _seed_tenant(domain, slug, DemoDevices.of(number), root / slug, now) for number, slug in enumerate(TENANTS)
    )
    writer = FileWriter()
    stranger = ensure_unknown_device(root / "nowhere", writer, now)
    with domain.platform() as session:
        owner = Owner(_ensure_msp(session, domain.actor))
        api_token = ensure_token(session, actor=domain.actor, owner=owner, role="msp-admin", folder=root, writer=writer)
    writer.write()
    return Demo(seeded, stranger, api_token)


def server_name(slug: str) -> str:
    return f"radius.{slug}.admit.example"


def _ensure_tenant(domain: CommandContext, slug: str) -> None:
    with domain.platform() as session:
        msp_id = _ensure_msp(session, domain.actor)
        try:
            if tenants.require_by_slug(session, slug=slug).msp_id != msp_id:
                raise Refused(
                    f"The tenant {slug!r} belongs to another MSP.",
                    place="demo",
                    remedy="Start without the demo, because the demo needs this name: ./admit up --no-demo",
                )
        except tenants.TenantNotFound:
            provision_tenant(
                session,
                actor=domain.actor,
                slug=slug,
                name=slug.title(),
                msp_id=msp_id,
                signing=domain.signing,
                server_names=[server_name(slug)],
            )


def _ensure_msp(session: Session, actor: str) -> MspId:
    try:
        return msps.require_by_slug(session, slug=MSP).id
    except msps.MspNotFound:
        return msps.create_msp(session, actor=actor, slug=MSP, name="Demo MSP").id


def _seed_tenant(domain: CommandContext, slug: str, devices: DemoDevices, folder: Path, now: datetime) -> DemoTenant:
    writer = FileWriter()
    with domain.tenant(slug) as (session, tenant_id):
        tenantry = _TenantSeeder(session, domain, tenant_id)
        tenantry.ensure_groups()
        tenantry.ensure_endpoints(devices)
        staff_password = tenantry.ensure_user(STAFF_USER, [policy.STAFF], folder, writer)
        guest_password = tenantry.ensure_user(GUEST_USER, [], folder, writer)
        tenantry.ensure_policy()
        issuance = CredentialIssuer(session, tenant_id, slug, folder, domain.actor, domain.signing, now)
        for plan in CERTIFICATE_PLANS:
            tenantry.changed |= issuance.ensure(plan, writer)
        authority = issuance.authority(DEVICE)
        issuing = build_locations(domain.signing.public_url, authority.id)
        root = build_locations(domain.signing.public_url, authority.issuer_id or authority.id)
        tenant = DemoTenant(
            slug=slug,
            tenant_id=tenant_id,
            server=_server(domain, session, tenant_id),
            server_name=server_name(slug),
            folder=folder,
            ca=folder / "ca.pem",
            issuing=folder / "issuing.pem",
            ocsp_url=issuing.ocsp,
            crl_url=issuing.crl,
            root_crl_url=root.crl,
            device=issuance.credential(DEVICE),
            revoked=issuance.credential(REVOKED),
            expired=issuance.credential(EXPIRED),
            early=issuance.credential(NOT_YET_VALID),
            misused=issuance.credential(WRONG_USAGE),
            devices=devices,
            staff_password=staff_password,
            guest_password=guest_password,
            reject_delay_seconds=math.ceil(domain.settings.reject_delay_seconds),
            api_token=ensure_token(
                session,
                actor=domain.actor,
                owner=Owner(tenant_id=tenant_id),
                role="tenant-admin",
                folder=folder,
                writer=writer,
            ),
        )
        xact = cells.get_current_xact(session) if tenantry.changed else ""
    writer.add(tenant.supplicant_file, network_block(device_network(tenant)))
    writer.write()
    if xact:
        domain.await_live(tenant.tenant_id, xact)
    return tenant


def device_network(tenant: DemoTenant) -> dict[str, str]:
    """Return the network settings of the tenant's laptop."""
    return tls_supplicant(
        identity=tenant.device.identity,
        trusted=tenant.ca,
        certificate=tenant.device.certificate,
        key=tenant.device.key,
        server_name=tenant.server_name,
    )


def _server(domain: CommandContext, session: Session, tenant_id: TenantId) -> RadiusServer:
    slot = cells.require_slot(session, tenant_id=tenant_id)
    secret = domain.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot)).decode()
    return RadiusServer(domain.settings.local_address, slot.auth_port, slot.acct_port, secret)


class _TenantSeeder:
    """Creates the objects of one tenant, in the tenant's scope."""

    def __init__(self, session: Session, domain: CommandContext, tenant_id: TenantId) -> None:
        self._session = session
        self._domain = domain
        self._tenant_id = tenant_id
        self.changed = False

    def ensure_groups(self) -> None:
        for groups, names in ((ENDPOINT_GROUPS, (policy.PRINTERS, policy.QUARANTINE)), (USER_GROUPS, (policy.STAFF,))):
            present = {group.name for group in groups.list_all(self._session, tenant_id=self._tenant_id)}
            for name in names:
                if name not in present:
                    self._do(groups.create, name=name)

    def ensure_endpoints(self, devices: DemoDevices) -> None:
        self._ensure_endpoint(devices.printer, "Printer", [policy.PRINTERS])
        self._ensure_endpoint(devices.quarantined, "Camera in quarantine", [policy.QUARANTINE])
        if self._ensure_endpoint(devices.blocked, "Stolen printer", [policy.PRINTERS]):
            self._do(endpoints.block_endpoint, mac=devices.blocked)

    def _ensure_endpoint(self, mac: str, name: str, groups: Iterable[str]) -> bool:
        try:
            endpoint = endpoints.require_by_mac(self._session, tenant_id=self._tenant_id, mac=mac)
            if endpoint.status in ("active", "blocked"):
                return False
        except endpoints.EndpointNotFound:
            pass
        # The endpoint is new, or Admit discovered it in an earlier check.
        self._do(endpoints.create_endpoint, mac=mac, name=name, groups=groups)
        return True

    def ensure_user(self, name: str, groups: Iterable[str], folder: Path, writer: FileWriter) -> str:
        """Create the user if missing, and return the password.

        Only the file NAME.password in `folder` contains the password. If this file is missing, the user gets a new
        password.
        """
        file = folder / f"{name}.password"
        known, password = read_text(file).strip(), secrets.token_hex(8)
        seal = self._domain.sealer.seal
        try:
            users.require_by_name(self._session, tenant_id=self._tenant_id, name=name)
        except users.UserNotFound:
            self._do(users.create_user, name=name, password=password, groups=groups, seal_for_chap=seal)
        else:
            if known:
                return known
            self._do(users.update_password, name=name, password=password, seal=seal)
        writer.add(file, f"{password}\n")
        return password

    def ensure_policy(self) -> None:
        published = self._ensure_published()
        for site in sites.list_sites(self._session, tenant_id=self._tenant_id):
            if site.policy_id is None:
                self._do(site_settings.assign_policy, slug=site.slug, policy_id=published.id)

    def _ensure_published(self) -> Policy:
        try:
            published = policies.require_by_slug(self._session, tenant_id=self._tenant_id, slug=_POLICY)
        except policies.PolicyNotFound:
            self._do(policies.create_policy, slug=_POLICY, name="Office")
            published = policies.require_by_slug(self._session, tenant_id=self._tenant_id, slug=_POLICY)
        if self._is_out_of_date(published):
            self._do(policies.save_draft, slug=_POLICY, document=policy.POLICY_DOCUMENT, comment=_COMMENT)
            self._do(policies.publish_policy, slug=_POLICY)
        return published

    def _is_out_of_date(self, published: Policy) -> bool:
        if published.published_version is None:
            return True
        version = policies.require_version(self._session, tenant_id=self._tenant_id, slug=_POLICY)
        return version.comment == _COMMENT and version.document != policy.POLICY_DOCUMENT

    def _do(self, service: Callable[..., object], **arguments: object) -> None:
        service(self._session, actor=self._domain.actor, tenant_id=self._tenant_id, **arguments)
        self.changed = True
