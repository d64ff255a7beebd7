"""Each change is checked twice. The second check repeats no request and sends no request that was stopped."""

import pytest

from nac.redecisions import service
from nac.sessions.coa_requests import service as coa
from tests.redecisions.conftest import CAMERA, PRINTER

BLOCK = "UPDATE endpoints SET status = 'blocked' WHERE mac = ANY (%s::macaddr[])"
TOUCH = "UPDATE endpoints SET name = 'lobby' WHERE mac = %s"


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
    net.call(service.stop_redecision, number=net.runs[0]["id"])
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
