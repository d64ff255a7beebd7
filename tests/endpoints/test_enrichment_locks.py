"""Users can change imported rows during enrichment, because the worker locks few rows at a time."""

from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest
from sqlalchemy import Engine, text

from nac.inventory.endpoints import enrichment, group_rules
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.enrichment import enrich_batch
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.kit.ids import TenantId
from tests.factories.tenancy import ACTOR
from tests.statements import counted
from worker.jobs import endpoints as jobs

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


def test_batch_locks_few_rows_and_stores_them_at_once(
    worker_engine: Engine, tenant_id: TenantId, imported: None, owner: psycopg.Connection
) -> None:
    with (
        session_scope(TenantScope(tenant_id), engine=worker_engine) as session,
        counted(worker_engine) as statements,
    ):
        assert enrich_batch(session, tenant_id=tenant_id) == _HELD_MOST
        assert unlocked_rows(owner) == len(_MACS) - _HELD_MOST
    assert len([each for each in statements if "UPDATE endpoints" in each]) == 1
    stored = owner.execute("SELECT count(*) FROM endpoints WHERE vendor <> '' AND found_profile = 'printer'")
    assert stored.fetchone() == (_HELD_MOST,)


def test_new_rule_locks_few_rows(change, worker_engine, tenant_id, imported, owner, work) -> None:
    work()
    change(ENDPOINT_GROUPS.create, name="brothers")
    rule = {"attribute": "endpoint.vendor", "operator": "starts_with", "value": "Brother"}
    change(group_rules.update_group_rule, name="brothers", rule=rule)
    with session_scope(TenantScope(tenant_id), engine=worker_engine) as session:
        assert enrich_batch(session, tenant_id=tenant_id) == _HELD_MOST
        assert unlocked_rows(owner) == len(_MACS) - _HELD_MOST


def test_rows_change_during_enrichment_and_few_are_locked(
    app_engine: Engine, process_engine: Engine, tenant_id: TenantId, imported: None, owner: psycopg.Connection
) -> None:
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
