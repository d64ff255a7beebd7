"""A tenant moves while cells are killed or lose the database. One cell answers, and no accounting is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import func, select, update

from nac.inventory.endpoints import service as endpoints
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AccountingLog, Cell, QuarantinedRecord, RadiusSession
from nac.tenancy.tenants import moves
from tests.agent.cell_process import RunningTenant
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.postgres import Database
from tests.two_cells.mab import MAC
from tests.two_cells.moves import MoveSteps, permit_known

pytestmark = pytest.mark.early

_ACCOUNTED = select(func.count()).select_from(AccountingLog)
_SESSIONS = select(func.count()).select_from(RadiusSession)


@pytest.fixture
def tenant(add_tenant, app_engine) -> RunningTenant:
    tenant = add_tenant()
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant.id, mac=MAC)
        permit_known(session, tenant.id)
    tenant.wait_live()
    return tenant


@pytest.fixture
def subject(cells, tenant: RunningTenant) -> MoveSteps:
    return MoveSteps(cells[0], tenant)


@pytest.fixture
def set_aside(owner_engine):
    """The number of records that are set aside, by cell and by state of the hand-over."""

    def count() -> dict[tuple[int, bool], int]:
        query = select(QuarantinedRecord.cell_id, QuarantinedRecord.handed_over, func.count())
        with owner_engine.connect() as connection:
            rows = connection.execute(query.group_by(QuarantinedRecord.cell_id, QuarantinedRecord.handed_over))
            return {(row[0], row[1]): row[2] for row in rows}

    return count


@contextmanager
def cut_off(database: Database) -> Iterator[None]:
    """Disconnect only the cells from PostgreSQL."""
    name = sql.Identifier(database.name)
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM admit_cell").format(name))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'admit_cell' AND datname = current_database()"
        )
        try:
            yield
        finally:
            connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO admit_cell").format(name))


@pytest.mark.long
def test_unshipped_records_are_shipped_by_the_tenants_cell(cells, subject, tenant, set_aside) -> None:
    """The old agent stops shipping before the switch. The new agent stops before it takes over the records.

    Then the operator reverts the move, and repeats it with the old cell's two processes killed.
    """
    one, other = cells
    before = tenant.server
    after = subject.prepare()
    to_cell = subject.status().move.to_cell_id
    subject.wait_ready()
    one.kill(with_radiusd=False)
    for number in range(3):
        assert subject.account(before, "Start", f"untold-{number}")
    subject.switch()
    tenant.wait_live()
    assert subject.is_admitted(after)
    # The new cell reports records of sessions whose start is not yet stored.
    assert subject.account(after, "Stop", "untold-0")
    until(lambda: subject.count(_ACCOUNTED) == 1, "the new cell ships")
    other.kill(with_radiusd=False)
    one.start()
    until(lambda: set_aside() == {(to_cell, True): 3}, "the old cell hands over what it had not told")
    assert not subject.is_admitted(before)

    subject.step(moves.cancel_move)
    tenant.wait_live()
    assert subject.is_admitted(before)
    until(lambda: subject.count(_ACCOUNTED) == 4 and not set_aside(), "all is told, by the cell that has the tenant")
    other.start()
    until(lambda: not subject.is_admitted(after), "the cell that was left answers no more")

    after = subject.prepare()
    subject.wait_ready()
    one.kill(with_radiusd=False)
    assert subject.account(before, "Stop", "untold-1")
    one.kill(with_radiusd=True)
    assert not subject.is_admitted(before)
    subject.switch()
    tenant.wait_live()
    assert subject.is_admitted(after)
    one.start()
    assert not subject.is_admitted(before)
    until(lambda: subject.count(_ACCOUNTED) == 5 and not set_aside(), "what it had is told after it is back")
    one.kill(with_radiusd=True)
    subject.step(moves.finish_move)
    tenant.wait_live()
    assert subject.is_admitted(after)
    one.start()
    assert not subject.is_admitted(before)
    assert subject.count(_ACCOUNTED) == 5
    assert subject.count(_SESSIONS) == 3
    assert subject.count(_SESSIONS.where(RadiusSession.stopped_at.is_not(None))) == 2


def test_disconnected_cells_never_both_answer(database, subject, tenant) -> None:
    before = tenant.server
    after = subject.prepare()
    subject.wait_ready()
    with cut_off(database):
        subject.switch()
        # Neither cell has received the change.
        assert subject.is_admitted(before)
        assert not subject.is_admitted(after)
        assert subject.account(before, "Start", "cut")
    tenant.wait_live()
    until(lambda: not subject.is_admitted(before), "the cell before answers no more")
    assert subject.is_admitted(after)
    assert subject.account(after, "Stop", "cut")
    until(lambda: subject.count(_ACCOUNTED) == 2, "both are told, once")
    with cut_off(database):
        subject.step(moves.cancel_move)
        assert subject.is_admitted(after)
        assert not subject.is_admitted(before)
    tenant.wait_live()
    until(lambda: not subject.is_admitted(after), "the cell that was left answers no more")
    assert subject.is_admitted(before)
    until(lambda: subject.count(_SESSIONS.where(RadiusSession.stopped_at.is_not(None))) == 1, "one session, ended")


@pytest.fixture
def silence(owner_engine):
    """Set the last report of the cell's agent to two minutes ago."""

    def silence(name: str) -> None:
        with owner_engine.begin() as connection:
            connection.execute(
                update(Cell).where(Cell.name == name).values(agent_seen_at=utc_now() - timedelta(minutes=2))
            )

    return silence


@pytest.mark.long
def test_dead_new_cell_is_awaited_and_can_be_left_at_once(cells, subject, tenant, silence) -> None:
    other = cells[1]
    before = tenant.server
    other.kill(with_radiusd=True)
    after = subject.prepare()
    with pytest.raises(moves.NotReadyYet, match="does not respond with the tenant's secret yet"):
        subject.step(moves.switch_move, sealer=subject.sealer)
    other.start()
    subject.wait_ready()
    other.kill(with_radiusd=True)
    silence("cell-2")
    with pytest.raises(moves.NotReadyYet, match="'cell-2' does not report"):
        subject.step(moves.switch_move, sealer=subject.sealer, although_silent=True)
    assert subject.is_admitted(before)
    other.start()
    subject.switch()
    other.kill(with_radiusd=True)
    until(lambda: not subject.is_admitted(before), "the cell before answers no more")
    other.start()
    until(lambda: subject.is_admitted(after), "the new cell is back")
    other.kill(with_radiusd=True)
    subject.step(moves.cancel_move)
    tenant.wait_live()
    assert subject.is_admitted(before)
    other.start()
    assert not subject.is_admitted(after)


@pytest.mark.long
def test_silent_old_cell_is_left_only_with_force(cells, subject, tenant, silence, set_aside) -> None:
    one = cells[0]
    before = tenant.server
    after = subject.prepare()
    subject.wait_ready()
    one.kill(with_radiusd=False)
    assert subject.account(before, "Start", "untold")
    silence("cell-1")
    with pytest.raises(moves.CellSilent, match="'cell-1' does not report"):
        subject.step(moves.switch_move, sealer=subject.sealer)
    subject.step(moves.switch_move, sealer=subject.sealer, although_silent=True)
    tenant.wait_live()
    assert subject.is_admitted(after)
    # The error states that the cell has not confirmed.
    assert subject.is_admitted(before)
    one.start()
    until(lambda: not subject.is_admitted(before), "the cell before answers no more")
    until(lambda: subject.count(_ACCOUNTED) == 1 and not set_aside(), "what it had is told, by the new cell")
