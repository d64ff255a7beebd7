"""A switch that is asked about a session at its port (RFC 5176): hostapd's own dynamic authorization server."""

import time

import pytest

from tests.radius.supplicant import eap_tls
from tests.waiting import until


@pytest.fixture
def at_work(office, switch, connect):
    """A device that is on the network, and whose session is known."""
    device = connect(eap_tls(office, office.clients["laptop"]))
    until(lambda: switch.is_open(device.mac), "the port is open")
    until(lambda: office.open_sessions(device.mac) == 1, "the session is known")
    return device


def test_blocked_device_is_off_the_network(office, switch, at_work, capsys):
    office.add_endpoint(at_work.mac)
    began = time.monotonic()
    office.block(at_work.mac)
    until(lambda: not switch.is_open(at_work.mac), "the port is closed")
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\noff the network {seconds:.3f} s after the call began")  # noqa: T201  # the figure is what is shown
    [request] = office.coa_requests(at_work.mac, state="acknowledged")
    assert (request["kind"], request["reason"], request["answer_code"]) == ("disconnect", "endpoint-blocked", 41)
    assert (request["attempts"], request["asked_by"]) == (1, "test:wired")
    # It asks again, as an operating system does at once, and finds that it is blocked.
    at_work.join()
    until(lambda: office.decisions(at_work.mac)[-1]["reason"] == "endpoint-blocked", "it was refused")
    assert not switch.is_open(at_work.mac)
