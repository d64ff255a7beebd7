"""Stopped items remain stopped until you publish a policy or request a check."""

import pytest

from nac.redecisions import runner, service
from tests.redecisions.conftest import CAMERA, PRINTER, by_group, document

BLOCK = "UPDATE endpoints SET status = 'blocked' WHERE mac = %s"
TOUCH = "UPDATE endpoints SET name = 'lobby' WHERE mac = %s"
CAMERAS = by_group("cameras", "30", identifier="c")
OTHER_VLAN = document(by_group("printers", "21"), CAMERAS)


def look_at_all(net):
    with net.scope("worker") as session:
        runner.create_run(session, tenant_id=net.id, cause="time")
    net.settle()


def states(net):
    return [(run["state"], run["held_back"]) for run in net.runs]


@pytest.fixture
def stopped(net, office):
    """A stopped run that would move printers to another VLAN."""
    net.decide_by(OTHER_VLAN)
    net.settle()
    net.call(service.stop_redecision, number=net.runs[0]["id"])
    assert net.queued_requests == {}


@pytest.mark.parametrize(
    "unrelated",
    ["UPDATE sites SET name = name || 'x'", "UPDATE nases SET name = name || 'x'", TOUCH.replace("%s", f"'{PRINTER}'")],
    ids=["site", "nas", "device"],
)
def test_stopped_item_is_not_sent_for_another_change(net, office, stopped, unrelated):
    net.owner.execute(unrelated)
    net.settle()
    assert net.queued_requests == {}
    look_at_all(net)
    assert net.queued_requests == {}
    last = net.runs[-1]
    assert (last["state"], last["sessions"], last["unchanged"], last["held_back"]) == ("done", 2, 1, 1)
    assert "Skipped sessions: 1. These sessions have the same differences as a stopped re-decision." in last["detail"]


def test_stopped_item_is_sent_after_a_policy_is_published(net, office, stopped):
    net.decide_by(OTHER_VLAN)
    net.settle()
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_stopped_item_is_sent_after_a_requested_check(net, office, stopped):
    net.call(service.start_redecision)
    net.settle()
    assert net.queued_requests == {office["printer"]: "reauthenticate"}


def test_item_that_was_not_stopped_is_sent(net, office, stopped):
    net.owner.execute(BLOCK, (PRINTER,))
    net.owner.execute("DELETE FROM endpoint_group_members m USING endpoints e WHERE e.id = m.endpoint_id")
    net.settle()
    assert net.queued_requests == dict.fromkeys(office.values(), "disconnect")


def test_stopped_item_with_a_new_decision_is_released(net, office):
    net.owner.execute(BLOCK, (PRINTER,))
    net.settle()
    net.call(service.stop_redecision, number=net.runs[0]["id"])
    net.owner.execute(BLOCK.replace("blocked", "active"), (PRINTER,))
    net.settle()
    assert net.queued_requests == {}
    net.owner.execute(BLOCK, (PRINTER,))
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
    net.decide_by(document(by_group("printers", "21"), by_group("cameras", "31", identifier="c")))
    net.follow()
    net.collect()
    net.turn()
    [run] = net.runs
    assert run["state"] == "deciding"
    net.call(service.stop_redecision, number=run["id"])
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
