"""Stopped items remain stopped until you publish a policy or request a check. Each change is checked twice."""

import pytest

from nac.redecisions import runner, service
from nac.sessions.coa_requests import service as coa
from tests.redecisions.conftest import CAMERA, PRINTER, office_policy

BLOCK = "UPDATE endpoints SET status = 'blocked' WHERE mac = ANY (%s::macaddr[])"
OTHER_VLAN = office_policy("21")


def look_at_all(net):
    with net.scope("worker") as session:
        runner.create_run(session, tenant_id=net.id, cause="time")
    net.settle()


@pytest.fixture
def stopped(net, office):
    """A stopped run that would move printers to another VLAN."""
    net.publish(OTHER_VLAN)
    net.call(service.cancel_redecision, number=net.runs[0]["id"])
    assert net.queued_requests == {}


@pytest.mark.parametrize("noun", ["sites", "nases", "endpoints"])
def test_stopped_item_is_not_sent_for_another_change(net, office, stopped, noun):
    where = f"WHERE mac = '{PRINTER}'" if noun == "endpoints" else ""
    net.owner.execute(f"UPDATE {noun} SET name = name || 'x' {where}")
    net.settle()
    assert net.queued_requests == {}
    look_at_all(net)
    assert net.queued_requests == {}
    last = net.runs[-1]
    assert (last["state"], last["sessions"], last["unchanged"], last["held_back"]) == ("done", 2, 1, 1)
    assert "Skipped sessions: 1. These sessions have the same differences as a stopped re-decision." in last["detail"]


@pytest.mark.parametrize("release", ["policy", "check"])
def test_stopped_item_is_sent_after_a_policy_or_a_check(net, office, stopped, release):
    if release == "policy":
        net.decide_by(OTHER_VLAN)
    else:
        net.call(service.start_redecision)
    net.settle()
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_item_that_was_not_stopped_is_sent(net, office, stopped):
    net.owner.execute(BLOCK, ([PRINTER],))
    net.owner.execute("DELETE FROM endpoint_group_members m USING endpoints e WHERE e.id = m.endpoint_id")
    net.settle()
    assert net.queued_requests == dict.fromkeys(office.values(), "disconnect")


def test_stopped_item_with_a_new_decision_is_released(net, office):
    net.owner.execute(BLOCK, ([PRINTER],))
    net.settle()
    net.call(service.cancel_redecision, number=net.runs[0]["id"])
    net.owner.execute(BLOCK.replace("blocked", "active"), ([PRINTER],))
    net.settle()
    assert net.queued_requests == {}
    net.owner.execute(BLOCK, ([PRINTER],))
    net.settle()
    assert net.queued_requests == {office["printer"]: "disconnect"}


def test_change_during_a_stopped_run_is_checked(net, office, monkeypatch):
    monkeypatch.setattr(runner, "PAGE_ROWS", 1)
    monkeypatch.setattr(runner.live_sessions.read_page, "__kwdefaults__", {"limit": 1})
    net.decide_by(OTHER_VLAN)
    net.follow()
    net.collect()
    assert net.turn()
    # The camera has the newest session, which the run has already checked.
    net.decide_by(office_policy("21", "31"))
    net.follow()
    net.collect()
    net.turn()
    [run] = net.runs
    assert run["state"] == "deciding"
    net.call(service.cancel_redecision, number=run["id"])
    net.settle()
    assert net.queued_requests == {office["camera"]: "reauthenticate"}


def test_items_of_a_stopped_run_are_kept_while_needed(net, office, stopped, monkeypatch):
    net.owner.execute("UPDATE redecisions SET ended_at = now() - interval '3 days'")
    with net.scope("worker") as session:
        runner.prune(session, tenant_id=net.id, days=30)
    look_at_all(net)
    assert net.queued_requests == {}
    net.call(service.start_redecision)
    with net.scope("worker") as session:
        runner.prune(session, tenant_id=net.id, days=30)
    assert net.owner.execute("SELECT count(*) FROM redecision_items").fetchone() == (0,)


@pytest.mark.parametrize("mac", [PRINTER, CAMERA])
def test_other_sessions_of_a_device_are_not_held_back(net, office, stopped, mac):
    later = net.begin(mac, net.owner.execute("SELECT class FROM sessions WHERE mac = %s", (mac,)).fetchone()[0], mac)
    look_at_all(net)
    assert net.queued_requests == ({later: "reauthenticate"} if mac == PRINTER else {})


def check_again(net):
    """Check again a minute later."""
    net.owner.execute("UPDATE redecision_marks SET due_at = now()")
    net.settle()


def states(net):
    return [(run["state"], run["disconnects"]) for run in net.runs]


def test_item_waiting_for_approval_is_listed_once(net, office):
    net.call(service.update_settings, mode="preview")
    net.owner.execute(BLOCK, ([PRINTER],))
    net.settle()
    check_again(net)
    assert states(net) == [("waiting", 1)]
    # Another difference of the session is a separate item.
    net.owner.execute("DELETE FROM endpoints WHERE mac = %s", (PRINTER,))
    net.settle()
    assert states(net) == [("superseded", 1), ("waiting", 1)]


def test_second_check_does_not_send_stopped_items(net, office):
    net.call(service.update_settings, per_second=1)
    net.owner.execute(BLOCK, ([PRINTER, CAMERA],))
    net.follow()
    net.collect()
    net.turn()
    assert len(net.queued_requests) == 1
    net.call(service.cancel_redecision, number=net.runs[0]["id"])
    check_again(net)
    assert (states(net), net.queued_requests) == ([("stopped", 2)], {})


def test_second_check_finds_changes_that_a_nas_ignored(net, office):
    net.owner.execute(BLOCK, ([PRINTER],))
    net.settle()
    net.owner.execute("UPDATE coa_requests SET state = 'unanswered', ended_at = now()")
    check_again(net)
    assert net.queued_requests == {office["printer"]: "disconnect"}


@pytest.mark.parametrize("rounds", [1, 4])
def test_session_with_a_pending_request_is_checked_once_more(net, office, rounds):
    net.call(coa.create_requests, kind="bounce", row=office["printer"])
    for _ in range(rounds):
        net.call(service.start_redecision)
        net.settle()
    marks = net.owner.execute("SELECT key FROM redecision_marks WHERE noun = 'session'").fetchall()
    assert marks == [(str(office["printer"]),)]
