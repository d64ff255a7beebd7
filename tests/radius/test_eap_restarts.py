"""A State is useless in another conversation: radiusd rejects each attack or uses the device's own name."""

import ssl
import struct

import pytest

from loadtest.eap_tls_client import client_context
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    EAP_MESSAGE,
    NAS_IDENTIFIER,
    STATE,
    encode_attribute,
    parse_attributes,
)
from tests.radius.devices import VERSIONS, Device
from tests.radius.inner_mschap import finish, open_verified
from tests.radius.nas import Nas, log_in, named
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import EAP_AVP, IDENTITY, MD5, NAK, PEAP, RESPONSE, TLS, TTLS, Tunnel, avp, eap, login

both_versions = pytest.mark.parametrize("version", VERSIONS)
tunnels = pytest.mark.parametrize("kind", [PEAP, TTLS])


pytestmark = pytest.mark.usefixtures("everything_offered")


def open_tls(tenant, client, version=ssl.TLSVersion.TLSv1_3, *, mac="", state=b""):
    """Run EAP-TLS up to the packet before the Access-Accept. radiusd has verified the certificate and stored the
    session.
    """
    context = client_context(certificate=str(client.chain_file), key=str(client.key_file), version=version)
    tunnel = Tunnel(tenant, TLS, outer=client.name, mac=mac, context=context)
    tunnel.state = state
    tunnel.open()
    if version == ssl.TLSVersion.TLSv1_3:
        assert tunnel.say() == ACCESS_CHALLENGE
    return tunnel


def open_named(tenant, kind):
    """Open a tunnel in which the device has sent the name anna and no password."""
    if kind == PEAP:
        return Tunnel(tenant, kind).open_peap(b"anna")
    tunnel = Tunnel(tenant, kind).open()
    assert tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna"))) == ACCESS_CHALLENGE
    return tunnel


def resume_tls_session_in_tunnel(tenant, kind, state, *, mac=""):
    """Resume an EAP-TLS session in a tunnel that requires a password, with the State of another tunnel."""
    device = Device(tenant.clients["laptop"], ssl.TLSVersion.TLSv1_3)
    device.visit(tenant)
    tunnel = device.resume_in_tunnel(tenant, kind, mac=mac)
    tunnel.state = state
    return tunnel.open()


def state_at(state, *, of, at):
    """The State that slot `at` decodes to the value that slot `of` decodes from `state`.

    Source: fr_state_find in src/main/state.c of FreeRADIUS 3.2.7.
    """
    key = _hash_of(f"slot_{of.slot}") ^ _hash_of(f"slot_{at.slot}")
    (word,) = struct.unpack("=I", state[4:8])
    return state[:4] + struct.pack("=I", word ^ key) + state[8:]


def _hash_of(text):
    """The 32-bit FNV-1 hash, as in fr_hash_string."""
    value = 0x811C9DC5
    for octet in text.encode():
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ octet
    return value


@both_versions
def test_undisturbed_handshake_is_permitted(cell, version):
    tunnel = open_tls(cell.alpha, cell.alpha.clients["laptop"], version)
    assert finish(tunnel) == ACCESS_ACCEPT


@both_versions
def test_revoked_certificate_after_a_good_handshake_is_rejected(cell, version):
    good = open_tls(cell.alpha, cell.alpha.clients["laptop"], version)
    bad = open_tls(cell.alpha, cell.alpha.clients["revoked"], version, mac=good.mac, state=good.state)
    assert finish(bad) == ACCESS_REJECT
    record = cell.decision()
    assert (record.reason, record.certificate_serial) == ("certificate-revoked", cell.alpha.clients["revoked"].serial)


@tunnels
@pytest.mark.parametrize("second", [PEAP, TTLS])
def test_verified_password_is_not_valid_in_another_tunnel(cell, kind, second):
    first = open_verified(cell.alpha, kind)
    tunnel = resume_tls_session_in_tunnel(cell.alpha, second, first.state, mac=first.mac)
    assert finish(tunnel) == ACCESS_REJECT
    assert cell.decisions(mac=first.mac, permitted=True) == []


@tunnels
def test_verified_password_is_not_valid_at_another_tenant(cell, kind):
    first = open_verified(cell.alpha, kind)
    state = state_at(first.state, of=cell.alpha, at=cell.bravo)
    tunnel = resume_tls_session_in_tunnel(cell.bravo, kind, state, mac=first.mac)
    assert finish(tunnel) == ACCESS_REJECT
    assert cell.decisions(mac=first.mac, permitted=True) == []


@tunnels
def test_tunnel_name_is_not_used_by_eap_tls(cell, kind):
    first = open_named(cell.alpha, kind)
    tunnel = open_tls(cell.alpha, cell.alpha.clients["laptop"], mac=first.mac, state=first.state)
    assert finish(tunnel) == ACCESS_ACCEPT
    record = cell.decision()
    assert (record.method, record.identity, record.rule_id) == ("eap-tls", "laptop", "machines")


@tunnels
def test_tunnel_name_is_not_used_by_eap_md5(cell, kind):
    first = open_named(cell.alpha, kind)
    device = Tunnel(cell.alpha, MD5, outer=PRINTER, mac=PRINTER)
    device.state = first.state
    asked = device.ask(eap(RESPONSE, 0, IDENTITY, PRINTER.encode()))
    if asked[4] != MD5:
        # Another test has made the cell remember the EAP type that this device requested.
        asked = device.ask(eap(RESPONSE, asked[1], NAK, bytes((MD5,))))
    assert device.code == ACCESS_CHALLENGE
    assert asked[4] == MD5
    device.ask(eap(RESPONSE, asked[1], MD5, b"\x10" + bytes(16)))
    assert device.code == ACCESS_REJECT
    record = cell.decision()
    assert (record.method, record.identity, record.reason) == ("mab", PRINTER, "wrong-mab-password")


@tunnels
@pytest.mark.parametrize(
    ("name", "password"), [("guest", PASSWORD), ("02a0c0ffffff", "02a0c0ffffff")], ids=["pap", "mab"]
)
def test_tunnel_state_is_useless_in_a_plain_request(cell, kind, name, password):
    first = open_verified(cell.alpha, kind)
    assert log_in(cell.alpha, name, password, (STATE, first.state), station="02-A0-C0-FF-FF-FF") == ACCESS_REJECT
    record = cell.decision()
    assert (record.identity, record.permitted) == (name, False)


def restart(tunnel, start):
    """Send an EAP-Start with the State of the conversation. Returns the new State."""
    reply = Nas(tunnel.tenant).ask(named(tunnel.outer, tunnel.mac, (EAP_MESSAGE, start), (STATE, tunnel.state)))
    assert reply[0] == ACCESS_CHALLENGE
    return dict(parse_attributes(reply))[STATE]


@tunnels
def test_eap_start_in_mid_conversation_forgets_the_password(cell, kind):
    first = open_verified(cell.alpha, kind)
    state = restart(first, b"")
    tunnel = resume_tls_session_in_tunnel(cell.alpha, kind, state, mac=first.mac)
    assert finish(tunnel) == ACCESS_REJECT
    assert cell.decisions(mac=first.mac, permitted=True) == []


@pytest.mark.parametrize("start", [b"", b"\0\0"], ids=["empty", "two octets"])
def test_eap_start_in_mid_conversation_begins_a_new_one(cell, start):
    good = open_tls(cell.alpha, cell.alpha.clients["laptop"])
    state = restart(good, start)
    again = open_tls(cell.alpha, cell.alpha.clients["laptop"], mac=good.mac, state=state)
    assert finish(again) == ACCESS_ACCEPT


@pytest.mark.parametrize("kind", [TLS, TTLS, PEAP])
def test_nak_after_the_tunnel_stands_is_rejected(cell, kind):
    tunnel = _last_packet_missing(cell, kind)
    other = TTLS if kind != TTLS else PEAP
    tunnel.ask(eap(RESPONSE, tunnel._identifier, NAK, bytes((other,))))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decisions(permitted=True) == []


class TestOtherPlace:
    """Continue a conversation from another place than its beginning."""

    @pytest.mark.parametrize("kind", [TLS, TTLS, PEAP])
    def test_other_station_cannot_continue(self, cell, kind):
        tunnel = _last_packet_missing(cell, kind)
        tunnel.mac = new_mac()
        assert finish(tunnel) == ACCESS_REJECT
        record = cell.decision()
        assert (record.permitted, record.reason, record.mac) == (False, "eap-failed", tunnel.mac)
        assert "another device or NAS" in record.detail

    def test_other_nas_cannot_continue(self, cell):
        tunnel = _last_packet_missing(cell, TLS)
        tunnel.more = encode_attribute(NAS_IDENTIFIER, "another")
        assert tunnel.say() == ACCESS_REJECT
        assert cell.decision().reason == "eap-failed"

    @pytest.mark.parametrize("kind", [TLS, TTLS, PEAP])
    def test_other_slot_cannot_continue(self, cell, kind):
        tunnel = _last_packet_missing(cell, kind)
        tunnel.state = state_at(tunnel.state, of=cell.alpha, at=cell.bravo)
        tunnel.tenant = cell.bravo
        assert finish(tunnel) == ACCESS_REJECT
        assert cell.decision().tenant_id == cell.bravo.tenant_id


def _last_packet_missing(cell, kind):
    if kind == TLS:
        return open_tls(cell.alpha, cell.alpha.clients["laptop"])
    return open_verified(cell.alpha, kind)


def test_repeated_response_is_permitted_once(cell):
    """The NAS repeats its last packet with another identifier, but the State has been used."""
    tunnel = open_tls(cell.alpha, cell.alpha.clients["laptop"])
    state, identifier = tunnel.state, tunnel._identifier
    assert finish(tunnel) == ACCESS_ACCEPT
    tunnel.state, tunnel._identifier = state, identifier
    assert tunnel.say() == ACCESS_REJECT
    assert len(cell.decisions(permitted=True)) == 1


@both_versions
def test_password_in_the_same_packet_as_the_state_is_compared(cell, version):
    """After a restart in TTLS with PAP, the new tunnel requests the password again."""
    first = open_verified(cell.alpha, TTLS)
    tunnel = Tunnel(cell.alpha, TTLS, version=version, mac=first.mac)
    tunnel.state = first.state
    tunnel.open()
    tunnel.say(login(b"anna", b"wrong"))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decision().reason == "wrong-password"
