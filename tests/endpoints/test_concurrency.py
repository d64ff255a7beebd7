"""Users and the worker change equal endpoints at once. The worker locks few rows at a time, and no change is lost."""

from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest
from sqlalchemy import Engine, select, text

from nac.inventory.endpoints import enrichment, group_rules, inbox
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.enrichment import enrich_batch
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.kit.errors import AlreadyExists
from nac.kit.ids import TenantId
from nac.models import Endpoint
from nac.onboarding.imports.endpoint_file import InvalidFile, import_endpoints
from tests.factories.tenancy import ACTOR
from tests.statements import counted
from worker.jobs import endpoints as jobs

MAC = "001ba9010203"
_MACS = [f"001ba9{number:06x}" for number in range(5_000)]
_HELD_MOST = 100
_ADD = text(
    "INSERT INTO endpoints (id, tenant_id, mac) SELECT gen_random_uuid(), :tenant, unnest(CAST(:macs AS macaddr[]))"
)


@pytest.fixture
def imported(app_engine: Engine, tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        session.execute(_ADD, {"tenant": tenant_id, "macs": _MACS})
        enrichment.enqueue(session, tenant_id=tenant_id, macs=_MACS)


@pytest.fixture
def process_engine(worker_engine: Engine) -> Iterator[Engine]:
    set_process_engine(worker_engine)
    yield worker_engine
    set_process_engine(None)


def unlocked_rows(owner: psycopg.Connection) -> int:
    """Rows that another transaction could change now."""
    with owner.transaction(force_rollback=True):
        return len(owner.execute("SELECT id FROM endpoints FOR UPDATE SKIP LOCKED").fetchall())


def test_batch_locks_few_rows_and_stores_them_at_once(worker_engine, tenant_id, imported, owner):
    with (
        session_scope(TenantScope(tenant_id), engine=worker_engine) as session,
        counted(worker_engine) as statements,
    ):
        assert enrich_batch(session, tenant_id=tenant_id) == _HELD_MOST
        assert unlocked_rows(owner) == len(_MACS) - _HELD_MOST
    assert len([each for each in statements if "UPDATE endpoints" in each]) == 1
    stored = owner.execute("SELECT count(*) FROM endpoints WHERE vendor <> '' AND found_profile = 'printer'")
    assert stored.fetchone() == (_HELD_MOST,)


def test_new_rule_locks_few_rows(change, worker_engine, tenant_id, imported, owner, work):
    work()
    change(ENDPOINT_GROUPS.create, name="brothers")
    rule = {"attribute": "endpoint.vendor", "operator": "starts_with", "value": "Brother"}
    change(group_rules.update_group_rule, name="brothers", rule=rule)
    with session_scope(TenantScope(tenant_id), engine=worker_engine) as session:
        assert enrich_batch(session, tenant_id=tenant_id) == _HELD_MOST
        assert unlocked_rows(owner) == len(_MACS) - _HELD_MOST


def test_rows_change_during_enrichment_and_few_are_locked(app_engine, process_engine, tenant_id, imported, owner):
    worker = Thread(target=jobs.enrich)
    worker.start()
    locked: list[int] = []
    while worker.is_alive():
        mac = _MACS[len(locked) * 997 % len(_MACS)]
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            endpoints.update_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac=mac, notes=f"{len(locked)}")
        locked.append(len(_MACS) - unlocked_rows(owner))
    worker.join()
    assert 0 < max(locked) <= _HELD_MOST
    assert owner.execute("SELECT count(*) FROM endpoints WHERE vendor = ''").fetchone() == (0,)
    # The worker keeps concurrent changes of users.
    noted = owner.execute("SELECT count(*) FROM endpoints WHERE notes <> ''").fetchone()
    assert noted == (min(len(locked), len(_MACS)),)


def status(session):
    return session.scalars(select(Endpoint.status).where(Endpoint.mac == MAC)).one()


def test_file_import_during_discovery_succeeds(session, change, see, worker_engine, tenant_id, meanwhile):
    see(MAC)
    with session_scope(TenantScope(tenant_id), engine=worker_engine) as worker:
        assert enrich_batch(worker, tenant_id=tenant_id) == 1
        importing = meanwhile(change, import_endpoints, text=f"mac\n{MAC}\n")
        assert not importing.done()
    assert importing.result().changed == 1
    assert status(session) == "active"


@pytest.mark.parametrize(
    ("service", "given", "refusal"),
    [
        (import_endpoints, {"text": f"mac\n{MAC}\n"}, InvalidFile),
        (endpoints.create_endpoint, {"mac": MAC}, AlreadyExists),
    ],
)
def test_concurrent_block_is_not_overwritten_by_approval(
    session, app_engine, change, see, work, tenant_id, meanwhile, service, given, refusal
):
    see(MAC)
    work()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as blocking:
        found = {"wanted": endpoints.EndpointCriteria(macs=(MAC,)), "decision": inbox.InboxDecision("block")}
        inbox.classify_endpoints(blocking, actor=ACTOR, tenant_id=tenant_id, **found)
        approving = meanwhile(change, service, **given)
        assert not approving.done()
    with pytest.raises(refusal):
        approving.result()
    assert status(session) == "blocked"
