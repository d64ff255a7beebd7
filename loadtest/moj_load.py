"""Stores the data set of the Ministry of Justice in a tenant, and measures the time until the cell uses the data."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from loadtest.bench_tenants import ProvisionedTenant
from loadtest.installation import Installation
from loadtest.moj_data import MojSite
from loadtest.processes import BenchError
from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, TenantScope, driver_connection, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.models import Endpoint, Nas, Policy, PolicyVersion, Site
from nac.policies.document_checks import require_dictionary
from nac.tenancy.cells import service as cells
from radius.agent.alarms import Alarms
from radius.agent.replica.loader import ReplicaLoader, TenantKey
from radius.module.policies import CompiledPolicies

_LIVE_SECONDS = 180


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Times in seconds."""

    # From the commit until the cell uses the whole data set.
    live: float
    # Time that an agent needs to fill an empty replica, and the number of rows that it reads.
    full_load: float
    rows: int
    # Time that the module needs to compile the policies of all sites, and the policy of the slowest site.
    compiling: float
    slowest: float


def load_data_set(installation: Installation, made: ProvisionedTenant, sites: Sequence[MojSite]) -> LoadTimes:
    """Store the data set in one transaction, and wait until the cell uses the data. Returns the time of each part."""
    scope = TenantScope(made.tenant_id)
    with session_scope(scope, engine=installation.engine) as session:
        site_ids = insert_sites(session, made.tenant_id, sites)
        xact = cells.get_current_xact(session)
    committed = perf_counter()
    cells.wait_until_live(
        scope, tenant_id=made.tenant_id, xact=xact, timeout_seconds=_LIVE_SECONDS, engine=installation.engine
    )
    live = perf_counter() - committed
    with tempfile.TemporaryDirectory(prefix="admit-bench-") as folder:
        full_load, rows = fill_replica(installation, made, Path(folder))
        spent = compile_policies(Path(folder), made.slot, site_ids)
    return LoadTimes(live, full_load, rows, sum(spent), max(spent))


def insert_sites(session: Session, tenant_id: TenantId, sites: Sequence[MojSite]) -> list[UUID]:
    """Insert the sites in bulk and return their ids.

    Admit's services would need minutes for these sites. This benchmark does not measure the services.
    """
    tenant = {"tenant_id": tenant_id}
    # A plan for empty tables would make checks of foreign keys slow, as in loadtest.bench_tenants.
    session.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    placed = [(uuid4(), uuid4(), site) for site in sites]
    now = utc_now()
    session.execute(
        insert(Policy),
        [
            tenant | {"id": policy_id, "slug": site.slug, "name": site.slug, "published_version": None}
            for _, policy_id, site in placed
        ],
    )
    session.execute(
        insert(PolicyVersion),
        [
            tenant
            | {"policy_id": policy_id, "number": 1, "document": site.document(), "status": "published"}
            | {"published_at": now}
            for _, policy_id, site in placed
        ],
    )
    session.execute(text("UPDATE policies SET published_version = 1 WHERE published_version IS NULL"))
    session.execute(
        insert(Site),
        [
            tenant | {"id": site_id, "slug": site.slug, "name": site.slug, "policy_id": policy_id}
            for site_id, policy_id, site in placed
        ],
    )
    nases = [(site_id, nas) for site_id, _, site in placed for nas in site.nases]
    session.execute(
        insert(Nas),
        [
            tenant
            | {"id": uuid4(), "site_id": site_id, "name": nas.identifier}
            | {"identifier": nas.identifier, "address": nas.address}
            for site_id, nas in nases
        ],
    )
    session.execute(insert(Endpoint), [tenant | {"id": uuid4(), "mac": nas.mac, "name": ""} for _, nas in nases])
    return [site_id for site_id, _, _ in placed]


def fill_replica(installation: Installation, made: ProvisionedTenant, directory: Path) -> tuple[float, int]:
    """Load the tenant into a new replica as an agent does, with a check of each policy. Returns (seconds, rows)."""
    engine = make_engine(installation.settings.database_cell_url, application_name="admit-bench")
    writer = ReplicaWriter(directory, fresh=True)
    try:
        with session_scope(TenantScope(made.tenant_id), engine=installation.engine) as session:
            dictionary = require_dictionary(session, tenant_id=made.tenant_id)
        mirror = ReplicaLoader(
            installation.cell_id, replies=dictionary, reseal=lambda sealed, _: sealed, alarms=Alarms()
        )
        with session_scope(CellScope(installation.cell_id), engine=engine) as session:
            connection = driver_connection(session)
            start = perf_counter()
            with writer.begin() as batch:
                slot = mirror.read_slots(connection.cursor())[made.slot]
                batch.put_slot(made.slot, slot)
                rows = mirror.load_tenant(connection, batch, TenantKey(slot.tenant, slot.tenant_id))
            return perf_counter() - start, rows
    finally:
        writer.close()
        engine.dispose()


def compile_policies(replica: Path, slot_number: int, site_ids: Sequence[UUID]) -> list[float]:
    """Return the seconds that the module needs at each site's first request to read and compile the policy."""
    reader, policies, spent = ReplicaReader(replica), CompiledPolicies(), []
    with reader.begin() as view:
        slot = view.slot(slot_number)
        assert slot is not None
        for site_id in site_ids:
            start = perf_counter()
            site = view.site(slot.tenant, str(site_id))
            policy = view.policy(slot.tenant, site.policy_id) if site else None
            if site is None or policy is None:
                raise BenchError(f"the replica lacks site {site_id} or its policy")
            policies.for_site(site, policy)
            spent.append(perf_counter() - start)
    reader.close()
    return spent
