"""CoA requests about a session at a switch port (RFC 5176). hostapd's own server for dynamic authorization responds."""

import time

import pytest

from tests.polling import until

pytestmark = pytest.mark.early


def test_blocked_device_is_disconnected(office, switch, at_work, capsys):
    until(lambda: office.is_known(at_work.mac), "the device has appeared")
    began = time.monotonic()
    office.block(at_work.mac)
    until(lambda: not switch.is_open(at_work.mac), "the port is closed")
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\noff the network {seconds:.3f} s after the call began")  # noqa: T201  # the figure is what is shown
    [request] = office.coa_requests(at_work.mac, state="acknowledged")
    assert (request["kind"], request["reason"], request["answer_code"]) == ("disconnect", "endpoint-blocked", 41)
    # The first packet succeeded, because a retransmission comes after 2 s (radius/agent/coa/transmission.py). The test
    # prints the time.
    assert (request["attempts"], request["retries"], request["step"]) == (1, 0, 0)
    assert request["requested_by"] == "test:wired"
    # The device authenticates again at once, as operating systems do, and is rejected because it is blocked.
    at_work.join()
    until(lambda: office.decisions(at_work.mac)[-1]["reason"] == "endpoint-blocked", "it was refused")
    assert not switch.is_open(at_work.mac)


def test_session_is_ended_by_a_command_and_may_restart(office, switch, at_work):
    [asked] = office.admit("session", "disconnect", "--mac", at_work.mac)
    assert (asked["state"], asked["reason"]) == ("queued", "requested")
    until(lambda: not switch.is_open(at_work.mac), "the port is closed")
    until(lambda: office.open_sessions(at_work.mac) == 0, "the session has ended")
    office.coa_requests(at_work.mac, state="acknowledged")
    [listed] = [row for row in office.admit("coa", "list") if row["id"] == asked["id"]]
    assert (listed["state"], listed["packets"], listed["answer_code"]) == ("acknowledged", 1, 41)
    at_work.join()
    until(lambda: switch.is_open(at_work.mac), "the port is open again")


def test_unknown_session_is_rejected_by_the_switch(office, switch, at_work):
    office.add_session(at_work.mac, "0000000000000000")
    office.admit("session", "disconnect", "--mac", at_work.mac)
    requests = office.coa_requests(at_work.mac, state="refused")
    assert {(row["state"], row["answer_code"], row["error_cause"]) for row in requests} == {
        ("acknowledged", 41, None),
        ("refused", 42, 503),
    }
    assert "The NAS does not know this session" in requests[-1]["detail"]
