"""Runs that wait for approval drop items that were sent or have ended. An empty run ends automatically."""

import pytest

from nac.redecisions import completion, live_sessions, service
from tests.redecisions.conftest import by_group, document

LEAVE = "DELETE FROM endpoint_group_members m USING endpoints e WHERE e.id = m.endpoint_id AND e.mac = %s"


def mac(number):
    return f"00a0c00001{number:02x}"


def clear(net):
    more = True
    while more:
        with net.scope("worker") as session:
            more = completion.settle_waiting(session, tenant_id=net.id)


@pytest.fixture
def waiting_run(net, crowd):
    """A run that waits for approval, because a policy would disconnect all devices."""
    net.decide_by(document(by_group("staff", "20")))
    net.settle()
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": len(crowd)})


def test_item_sent_by_a_small_run_is_dropped(net, crowd, waiting_run):
    net.owner.execute("UPDATE endpoints SET name = 'lobby' WHERE mac = %s", (mac(0),))
    net.settle()
    assert net.queued_requests == {crowd[0]: "disconnect"}
    large, small = net.runs
    assert (large["state"], large["items"]) == ("waiting", {"found": len(crowd) - 1, "settled": 1})
    assert small["state"] == "done"
    net.call(service.approve_redecision, number=large["id"])
    net.turn()
    assert net.runs[0]["requests"] == {"queued": 9}
    assert net.owner.execute("SELECT count(*) FROM coa_requests").fetchone() == (10,)


def test_run_ends_if_others_sent_all_its_items(net, crowd, waiting_run):
    for number in range(len(crowd)):
        net.owner.execute("UPDATE endpoints SET name = 'lobby' WHERE mac = %s", (mac(number),))
        net.settle()
        net.owner.execute("UPDATE redecisions SET created_at = created_at - interval '2 hours'")
    large, *small = net.runs
    assert (large["state"], large["items"]) == ("superseded", {"settled": len(crowd)})
    assert "were checked later" in large["detail"]
    assert large["ended"]
    assert {run["state"] for run in small} <= {"done", "sending"}


def test_item_of_an_unaffected_session_is_dropped(net, crowd, waiting_run):
    net.owner.execute(
        "INSERT INTO endpoint_groups (tenant_id, name) VALUES (%s, 'staff') ON CONFLICT DO NOTHING", (net.id,)
    )
    net.owner.execute(
        "INSERT INTO endpoint_group_members (tenant_id, endpoint_id, group_id) SELECT e.tenant_id, e.id, g.id "
        "FROM endpoints e JOIN endpoint_groups g USING (tenant_id) WHERE e.mac = %s AND g.name = 'staff'",
        (mac(0),),
    )
    net.settle()
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": len(crowd) - 1, "settled": 1})


def test_run_ends_when_its_sessions_have_ended(net, crowd, waiting_run, monkeypatch):
    monkeypatch.setattr(live_sessions, "PAGE_ROWS", 5)
    clear(net)
    assert net.runs[0]["items"] == {"found": len(crowd)}
    for row in crowd[:-1]:
        net.end(row)
    clear(net)
    [run] = net.runs
    assert (run["state"], run["items"]) == ("waiting", {"found": 1, "settled": len(crowd) - 1})
    net.end(crowd[-1])
    clear(net)
    assert net.runs[0]["state"] == "superseded"
