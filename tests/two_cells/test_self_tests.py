"""Self-tests in which a part is killed: the processes of a worker, an agent or a radiusd. All parts are real."""

import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine

from nac.kit.db import TenantScope, session_scope
from nac.models import SelfTest
from nac.onboarding.self_tests import actions, runner, service
from nac.onboarding.self_tests.runner import SelfTestPlatform
from tests.agent.cell_process import LOOPBACK, RunningCell, RunningTenant
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.self_tests.conftest import POLICY
from tests.worker.conftest import Query, query, worker

__all__ = ["query"]

pytestmark = pytest.mark.early

_PATIENCE = 240
_LOGGED = "SELECT split_part(nas_port, '-', 1), count(*) FROM auth_log WHERE tenant_id = %s GROUP BY 1"


@pytest.fixture
def acme(add_tenant: Callable[..., RunningTenant]) -> RunningTenant:
    return add_tenant("acme", policy=POLICY, groups=["printers"])


def start(acme: RunningTenant) -> UUID:
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        return service.start_self_test(session, actor=ACTOR, tenant_id=acme.id).id


def found(acme: RunningTenant, test_id: UUID) -> SelfTest:
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        return service.require_self_test(session, tenant_id=acme.id, test_id=test_id)


def run(acme: RunningTenant, cell: RunningCell, engine: Engine) -> SelfTest:
    test_id = start(acme)
    assert runner.run_waiting(SelfTestPlatform(cell.signing, LOOPBACK, 0), engine=engine) == 1
    return found(acme, test_id)


def assert_nothing_is_left(acme: RunningTenant, query: Query) -> None:
    left = "SELECT DISTINCT status FROM certificates WHERE tenant_id = %s AND profile = 'eap-client-self-test'"
    assert query(left, acme.id) == [("revoked",)]
    for table in (
        "endpoints",
        "endpoint_sightings",
        "policy_hits",
        "decision_counts",
        "reject_counts",
        "sessions",
        "accounting_log",
    ):
        assert query(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", acme.id) == [(0,)], table
    others = "SELECT count(*) FROM auth_log WHERE tenant_id = %s AND nas_identifier <> 'admit-self-test'"
    assert query(others, acme.id) == [(0,)]


@pytest.mark.long
def test_self_test_of_a_killed_worker_is_run_once_by_the_next(
    cell, acme, database, redis_server, worker_engine, query, tmp_path, monkeypatch
) -> None:
    """The worker is killed during the conversations. The certificate is valid, and devices have been answered."""
    settings = {
        "MASTER_KEY_FILE": str(cell.folder / "master.key"),
        "RADIUS_HOST": LOOPBACK,
        "REJECT_DELAY_SECONDS": "0",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"ADMIT_{name}", value)
    test_id = start(acme)
    own = "FROM certificates WHERE tenant_id = %s AND common_name LIKE '%%-good' AND status = 'valid'"
    with psycopg.connect(database.superuser_url) as other, worker(database, redis_server, tmp_path) as process:
        until(lambda: query(f"SELECT 1 {own}", acme.id), "a good certificate", seconds=_PATIENCE)
        # The killed worker cannot revoke the certificate any more.
        assert other.execute(f"SELECT 1 {own} FOR UPDATE".encode(), [acme.id]).fetchall() == [(1,)]
        until(lambda: query(_LOGGED, acme.id), "an answer", seconds=_PATIENCE)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert found(acme, test_id).state == "running"
    assert query(f"SELECT 1 {own}", acme.id) == [(1,)]
    # The lease of the killed worker has expired.
    query("UPDATE self_tests SET due_at = now() WHERE id = %s", test_id)
    assert runner.run_waiting(SelfTestPlatform(cell.signing, LOOPBACK, 0), engine=worker_engine) == 1
    row = found(acme, test_id)
    assert (row.state, row.error, row.passed, row.attempts) == ("done", "", True, 2), row.board
    assert runner.run_waiting(SelfTestPlatform(cell.signing, LOOPBACK, 0), engine=worker_engine) == 0
    until(lambda: len(query(_LOGGED, acme.id)) == 2, "both runs are logged under names of their own")
    assert_nothing_is_left(acme, query)


@pytest.mark.long
@pytest.mark.parametrize("with_radiusd", [False, pytest.param(True, marks=pytest.mark.long)])
def test_self_test_reports_a_killed_cell_and_the_next_passes(
    cell, acme, worker_engine, query, monkeypatch, with_radiusd
) -> None:
    """The cell's agent is killed directly before the device requests.

    Only radiusd still answers, and the next agent ships its journal.
    """
    try_ = runner._SelfTestRun._try
    monkeypatch.setattr(actions, "_SILENCE_SECONDS", 0.5)

    def killing(self: runner._SelfTestRun, *given: Any) -> list[runner.BoardRow]:
        cell.kill(with_radiusd=with_radiusd)
        return try_(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(runner._SelfTestRun, "_try", killing)
        patch.setattr(runner, "_LOGGED_SECONDS", 1.0)
        patch.setattr(actions, "PATIENCE_SECONDS", 3.0)
        told = run(acme, cell, worker_engine)
    assert (told.state, told.error, told.passed) == ("done", "", False)
    why = {row["why"] for row in told.board if not row["ok"]}
    assert why == {
        "No response. Check that the cell and its radiusd are running."
        if with_radiusd
        else "The cell responded, but the log has no entry of this test. Check that the agent ships the journal."
    }
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_LIVE_SECONDS", 0.5)
        unheard = run(acme, cell, worker_engine)
    assert (unheard.state, unheard.passed) == ("failed", False)
    assert unheard.error.startswith(
        "The tenant's cell did not receive the test certificates in time. Check that the cell's agent"
    )
    cell.start()
    again = run(acme, cell, worker_engine)
    assert (again.state, again.error, again.passed) == ("done", "", True), again.board
    if not with_radiusd:
        until(lambda: len(query(_LOGGED, acme.id)) == 2, "what was answered without an agent is logged")
    assert_nothing_is_left(acme, query)
