"""The worker's job handles every tenant, even if one tenant fails."""

import pytest

from nac.kit.db import set_process_engine
from nac.redecisions import live_sessions, repository, runner
from radius.agent.alarms import Alarms
from radius.agent.tenant_alarms import MIN_FAILURES, update_redecision_alarms
from tests.redecisions.conftest import by_group, document
from worker.jobs import redecisions

MAC = "00a0c0000001"


@pytest.fixture(autouse=True)
def process(worker_engine):
    set_process_engine(worker_engine)
    yield
    set_process_engine(None)


@pytest.fixture
def both(net, net_of):
    tenants = [net, net_of("bravo")]
    for each in tenants:
        each.decide_by(document(by_group("printers", "20")))
        each.add(MAC, "printers")
    sessions = [each.join(MAC) for each in tenants]
    for each in tenants:
        each.forget_marks()
    return dict(zip(sessions, tenants, strict=True))


def change(tenants):
    for each in tenants:
        each.decide_by(document(by_group("printers", "21")))
        each.follow()
    redecisions.advance()
    tenants[0].owner.execute("UPDATE redecision_marks SET due_at = now() WHERE noun = 'policy'")


def test_job_checks_every_tenant(both):
    change([*both.values()])
    redecisions.advance()
    for session, tenant in both.items():
        assert tenant.queued_requests == {session: "reauthenticate"}
    # A second run of the job sends no request twice.
    redecisions.advance()
    assert [len(tenant.queued_requests) for tenant in both.values()] == [1, 1]


def test_tenant_with_invalid_rows_delays_no_other(both, monkeypatch):
    change([*both.values()])
    first, second = both.values()
    advance = runner.advance_tenant

    def fail(session, *, tenant_id):
        if tenant_id == first.id:
            raise ValueError("a row that nobody thought of")
        return advance(session, tenant_id=tenant_id)

    monkeypatch.setattr(runner, "advance_tenant", fail)
    redecisions.advance()
    assert (len(first.queued_requests), len(second.queued_requests)) == (0, 1)
    # The cell raises an alarm only after several failures.
    alarms = Alarms()
    update_redecision_alarms(first.engines.cell, first.cell_id, alarms)
    assert alarms.standing() == []
    for _ in range(MIN_FAILURES):
        redecisions.advance()
    update_redecision_alarms(first.engines.cell, first.cell_id, alarms)
    [alarm] = alarms.standing()
    assert alarm.code == "redecision-fails:alpha"
    assert "ValueError" in alarm.detail
    monkeypatch.setattr(runner, "advance_tenant", advance)
    redecisions.advance()
    assert len(first.queued_requests) == 1
    update_redecision_alarms(first.engines.cell, first.cell_id, alarms)
    assert alarms.standing() == []


def test_tenant_locked_by_another_worker_is_skipped(both):
    change([*both.values()])
    first, second = both.values()
    with first.scope("worker") as session:
        assert repository.try_lock_tenant(session, first.id)
        redecisions.advance()
        assert (len(first.queued_requests), len(second.queued_requests)) == (0, 1)


def test_killed_worker_leaves_everything_unchanged(net, monkeypatch):
    net.decide_by(document(by_group("printers", "20")))
    macs = [f"00a0c00002{number:02x}" for number in range(4)]
    for mac in macs:
        net.add(mac, "printers")
    sessions = [net.join(mac) for mac in macs]
    net.forget_marks()
    monkeypatch.setattr(runner, "PAGE_ROWS", 2)
    monkeypatch.setattr(live_sessions.read_page, "__kwdefaults__", {"limit": 2})
    net.decide_by(document(by_group("printers", "21")))
    net.follow()
    net.collect()
    assert net.turn()

    class Killed(BaseException):
        pass

    def die(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(runner.dispatch, "queue_requests", die)
        with pytest.raises(Killed):
            net.turn()
    [run] = net.runs
    assert (run["state"], run["sessions"]) == ("deciding", 2)
    net.settle()
    [run] = net.runs
    assert (run["state"], run["sessions"], run["reauthentications"]) == ("done", 4, 4)
    assert net.queued_requests == dict.fromkeys(sessions, "reauthenticate")


def test_tenant_whose_cell_lags_behind_is_not_checked(both):
    first, second = both.values()
    for each in (first, second):
        each.decide_by(document(by_group("printers", "21")))
    redecisions.advance()
    first.owner.execute("UPDATE redecision_marks SET due_at = now() - interval '1 second' WHERE noun = 'policy'")

    def waiting():
        return {row[0] for row in first.owner.execute("SELECT tenants_to_redecide()")}

    assert waiting() == set()
    first.follow()
    assert waiting() == {first.id, second.id}
    first.owner.execute("UPDATE slots SET tenant_id = NULL, status = 'free' WHERE tenant_id = %s", (second.id,))
    assert waiting() == {first.id}
