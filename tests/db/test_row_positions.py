"""Queries of many rows: by position, with any statistics of the table, and by more values than PostgreSQL's limit."""

from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from nac.accounts.members import repository as members
from nac.certificates.enrolment import repository as enrolment
from nac.inventory.endpoints import enrichment
from nac.inventory.endpoints import repository as endpoints
from nac.inventory.endpoints.repository import EndpointCriteria
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import TenantScope, force_ctid_scan, session_scope
from nac.kit.ids import TenantId
from nac.tenancy.tenants import repository as tenants
from tests.factories.tenancy import Platform, make_platform, make_tenant
from tests.postgres import Database

WAITING = 3_000
_BY_PLACE = text("EXPLAIN DELETE FROM endpoint_work WHERE ctid = ANY (CAST(:places AS tid[]))")
_BY_NUMBER = text("EXPLAIN DELETE FROM endpoint_work WHERE id = ANY (CAST(:numbers AS bigint[]))")


def macs(number: int) -> list[str]:
    return [f"{each:012x}" for each in range(number)]


@pytest.fixture
def unexpected(database: Database, app_engine: Engine, platform: Platform) -> TenantId:
    """A tenant with rows since the last ANALYZE. At that time, the table contained only rows of another tenant."""
    known, unexpected = (make_tenant(app_engine, platform, slug).id for slug in ("known", "unexpected"))
    with session_scope(TenantScope(known), engine=app_engine) as session:
        enrichment.enqueue(session, tenant_id=known, macs=macs(WAITING))
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("ANALYZE endpoint_work")
    with session_scope(TenantScope(unexpected), engine=app_engine) as session:
        enrichment.enqueue(session, tenant_id=unexpected, macs=macs(WAITING))
    return unexpected


def plan(session: Session, statement: object, **given: object) -> str:
    return "\n".join(session.scalars(statement, given))  # type: ignore[call-overload]


def test_rows_are_found_only_by_position(worker_engine: Engine, unexpected: TenantId) -> None:
    with session_scope(TenantScope(unexpected), engine=worker_engine) as session:
        places = session.scalars(text("SELECT ctid::text FROM endpoint_work")).all()
        assert len(places) == WAITING
        with force_ctid_scan(session):
            assert "Tid Scan" in plan(session, _BY_PLACE, places=places)
        assert "Index Scan" in plan(session, _BY_NUMBER, numbers=[1])


def test_new_tenant_is_estimated_to_own_a_share(worker_engine: Engine, unexpected: TenantId) -> None:
    with session_scope(TenantScope(unexpected), engine=worker_engine) as session:
        asked = text("EXPLAIN (FORMAT JSON) SELECT FROM endpoint_work WHERE tenant_id = :tenant")
        (expected,) = session.scalars(asked, {"tenant": unexpected}).one()
    # About 1/200 of the table (selfuncs.h of PostgreSQL), and not the single row of a value that does not occur.
    assert expected["Plan"]["Plan Rows"] >= WAITING // 200


@pytest.mark.parametrize("limit", [1, WAITING - 1, WAITING, WAITING + 1])
def test_first_rows_are_returned_and_others_remain_queued(
    worker_engine: Engine, unexpected: TenantId, limit: int
) -> None:
    take: Callable[..., set[str]] = enrichment.take_batch
    with session_scope(TenantScope(unexpected), engine=worker_engine) as session:
        assert take(session, tenant_id=unexpected, limit=limit) == set(macs(WAITING)[:limit])
        assert take(session, tenant_id=unexpected, limit=WAITING) == set(macs(WAITING)[limit:])
        assert take(session, tenant_id=unexpected, limit=WAITING) == set()


MANY = 70_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda session, tenant_id: len(endpoints.list_page(session, tenant_id, LISTED, span=endpoints.ORDERS.first(9))),
        lambda session, tenant_id: len(enrolment.list_unknown_authorities(session, IDS)),
        lambda session, tenant_id: len(
            tenants.list_page(session, span=tenants.ORDERS.first(9), only=IDS, text="", statuses=())
        ),
        lambda session, tenant_id: sum(map(len, members.list_chosen_tenants(session, IDS).values())),
        lambda session, tenant_id: len(ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=IDS)),
    ],
    ids=["endpoints", "authorities", "tenants", "members", "groups"],
)
def test_set_of_any_size_is_one_parameter(ask, app_engine, cell_engine):
    tenant_id = make_tenant(app_engine, make_platform(app_engine, cell_engine, slots=1), "alpha").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert ask(session, tenant_id) == 0


IDS = [UUID(int=number) for number in range(1, MANY + 1)]
LISTED = EndpointCriteria(macs=tuple(f"{number:012x}" for number in range(MANY)))
