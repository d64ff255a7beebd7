"""Devices that begin EAP and never finish block no other device and use bounded memory."""

import pytest

from nac.kit.radius_packet import ACCESS_CHALLENGE, ACCESS_REJECT, NAS_IDENTIFIER, encode_attribute
from radius.agent.radiusd.memory import get_process_memory
from tests.radius.devices import VERSIONS, Device
from tests.radius.standalone import Plan, running_cell
from tests.radius.tunnel import GTC, IDENTITY, PEAP, RESPONSE, TTLS, Tunnel, eap

MOST = 64
EXPANDED = 254
ROGUE, OTHER = encode_attribute(NAS_IDENTIFIER, "rogue"), encode_attribute(NAS_IDENTIFIER, "other")


@pytest.fixture(scope="module")
def small_cell():
    """A cell whose slots keep 64 conversations each."""
    with running_cell(Plan(max_conversations=MOST)) as cell:
        yield cell


@pytest.fixture
def cell(small_cell):
    small_cell.forget_records()
    yield small_cell
    assert small_cell.is_alive()
    assert "Too many open sessions" not in small_cell.log()


def begin(tenant, *, nas=ROGUE, rounds=1):
    """Begin a conversation and abandon it after `rounds` responses of radiusd."""
    tunnel = Tunnel(tenant, TTLS)
    tunnel.more = nas
    if rounds == 1:
        tunnel.ask(eap(RESPONSE, 0, IDENTITY, b"anonymous"))
    else:
        tunnel.open()
    assert tunnel.code == ACCESS_CHALLENGE
    return tunnel


@pytest.mark.parametrize("nas", [ROGUE, OTHER], ids=["same NAS", "another NAS"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_login_succeeds_while_others_are_left_unfinished(cell, nas, rounds):
    device = Device(cell.alpha.clients["laptop"], VERSIONS[1], attributes=nas)
    for _ in range(2):
        for _ in range(MOST):
            begin(cell.alpha, rounds=rounds)
        device.visit(cell.alpha, vlan="10")
    assert len(cell.decisions(permitted=True)) == 2


@pytest.mark.parametrize(
    ("kind", "name", "rounds"),
    [
        *((kind, "anonymous", 3) for kind in (GTC, PEAP, EXPANDED)),
        *((TTLS, "somebody else", rounds) for rounds in (1, 3)),
    ],
)
def test_wrong_type_or_name_responses_cost_no_memory(cell, kind, name, rounds):
    """`rlm_eap` 3.2.7 keeps a conversation for 30 s after a malformed response.

    After a wrong type or name, it never frees it.
    """
    device = Device(cell.alpha.clients["laptop"], VERSIONS[0])
    before = get_process_memory(cell.running.pid)
    for _ in range(3 * MOST):
        tunnel = begin(cell.alpha, rounds=rounds)
        tunnel.outer = name
        tunnel.ask(eap(RESPONSE, tunnel._identifier, kind, b"x"))
        assert tunnel.code == ACCESS_REJECT
    device.visit(cell.alpha, vlan="10")
    assert get_process_memory(cell.running.pid).resident_bytes - before.resident_bytes < 45 << 20


def test_conversations_of_other_nases_and_tenants_survive(cell):
    kept = [begin(cell.alpha, nas=OTHER, rounds=3), begin(cell.bravo, rounds=3)]
    begun = [begin(cell.alpha, rounds=3) for _ in range(2 * MOST)]
    for tunnel in (*kept, begun[-1]):
        tunnel.say()
        assert cell.decisions(mac=tunnel.mac, reason="too-many-conversations") == []
    # The oldest conversation of the flood ends with a reason.
    begun[MOST].say()
    assert begun[MOST].code == ACCESS_REJECT
    assert cell.decision(mac=begun[MOST].mac).reason == "too-many-conversations"
    assert "admit: conversations-full slot=0 source=127.0.0.1" in cell.log()
    Device(cell.bravo.clients["laptop"], VERSIONS[1]).visit(cell.bravo, vlan="10")
