"""Policy changes while devices are on a port, with hostapd as the switch and a complete installation of Admit."""

import json
import time

import pytest

from nac.kit.mac import display_mac
from tests.polling import until
from tests.whole.installed.wired.office import LAB_VLAN, OFFICE_VLAN, document

pytestmark = pytest.mark.early


@pytest.fixture
def at_work(office, at_work):
    """A device on the network. The policy of the office is restored after the test."""
    yield at_work
    office.publish(document())


@pytest.fixture
def previewed(office, tmp_path):
    """Function that returns the preview for a device: action, VLAN before, VLAN after."""

    def previewed(draft, mac):
        file = tmp_path / "draft.json"
        file.write_text(json.dumps(draft))
        told = office.admit("redecide", "preview", "--draft", str(file))
        return [
            (change["action"], change["before"]["vlan"], change["after"]["vlan"])
            for change in told["changes"]
            if display_mac(mac) in {example["mac"] for example in change["examples"]}
        ]

    return previewed


def test_device_moves_to_the_published_vlan(office, switch, at_work, previewed, capsys):
    moved = document(laptop={"vlan": LAB_VLAN})
    assert previewed(moved, at_work.mac) == [("reauthenticate", OFFICE_VLAN, LAB_VLAN)]
    assert switch.is_open(at_work.mac)
    began = time.monotonic()
    office.publish(moved)
    until(lambda: not switch.is_open(at_work.mac), "the session is ended")
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\nasked to authenticate again {seconds:.3f} s after the policy was published")  # noqa: T201  # the figure is what is shown
    [request] = office.coa_requests(at_work.mac, state="acknowledged")
    assert (request["kind"], request["reason"]) == ("reauthenticate", "redecided")
    # The device authenticates again at once, as operating systems do.
    at_work.join()
    until(lambda: switch.is_open(at_work.mac) and switch.vlan(at_work.mac) == LAB_VLAN, "it is in the other VLAN")
    assert previewed(moved, at_work.mac) == []


@pytest.mark.long
def test_device_denied_by_a_new_policy_is_disconnected(office, switch, at_work, previewed):
    without = document(laptop=None)
    assert previewed(without, at_work.mac) == [("disconnect", OFFICE_VLAN, "")]
    office.publish(without)
    until(lambda: not switch.is_open(at_work.mac), "the port is closed")
    [request] = office.coa_requests(at_work.mac, state="acknowledged")
    assert (request["kind"], request["reason"]) == ("disconnect", "redecided")
    at_work.join()
    until(lambda: office.decisions(at_work.mac)[-1]["reason"] == "fallback-denied", "it was refused")
    assert not switch.is_open(at_work.mac)
    # Another run of this change may have found the session earlier, and handles it.
    runs = [office.admit("redecide", "show", str(run["id"])) for run in office.admit("redecide", "list")]
    [shown] = [run for run in runs if run["disconnects"] and run["requests"]]
    assert (shown["state"], shown["requests"]) == ("done", {"acknowledged": 1})
    assert [change["after"]["reason"] for change in shown["changes"]] == ["fallback-denied"]
