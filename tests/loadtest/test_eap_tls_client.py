"""The EAP-TLS supplicant with an unchanged FreeRADIUS, and the supplicant's errors."""

import ssl

import pytest

from loadtest.certificates import BenchAuthority
from loadtest.eap_tls_client import FULL, RESUMED, EapTls, EapTlsSource, Supplicant, client_context
from loadtest.radius_client import UnexpectedReply
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_CHALLENGE, encode_attribute, encode_eap_message

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@VERSIONS
def test_reconnect_with_the_kept_session_is_resumed(stock, client, version):
    supplicant = stock.supplicant(version=version)
    first = EapTls(stock.target, supplicant, vlan=stock.vlan, keep_session=True)
    client.ask(first)
    again = EapTls(stock.target, supplicant, vlan=stock.vlan, resume=True)
    client.ask(again)
    assert (first.kind, again.kind) == (FULL, RESUMED)


def test_mix_alternates_full_handshakes_and_resumptions(stock, client):
    devices = [(stock.target, stock.supplicant(version=ssl.TLSVersion.TLSv1_2), stock.vlan) for _ in range(2)]
    run = client.run(EapTlsSource(devices, reconnects=3), count=16, window=1)
    assert run.faults() == {}
    assert {kind: tally.right for kind, tally in run.tallies.items()} == {FULL: 4, RESUMED: 12}


def test_wrong_server_certificate_or_vlan_is_a_fault(stock, client):
    client.ask(EapTls(stock.target, stock.supplicant(server_certificate=stock.authority.server_certificate)))
    with pytest.raises(UnexpectedReply, match="another server certificate"):
        client.ask(EapTls(stock.target, stock.supplicant(server_certificate=b"not that one")))
    with pytest.raises(UnexpectedReply, match="VLAN '77' instead of '78'"):
        client.ask(EapTls(stock.target, stock.supplicant(), vlan="78"))


def test_supplicant_rejects_a_server_of_another_authority(stock, client, tmp_path):
    context = client_context(
        certificate=str(stock.client.certificate),
        key=str(stock.client.key),
        trusted=BenchAuthority(tmp_path).root_pem,
    )
    with pytest.raises(UnexpectedReply, match="reject instead of accept TLS: CERTIFICATE_VERIFY_FAILED"):
        client.ask(EapTls(stock.target, Supplicant(context, "laptop-1")))


def test_other_eap_method_is_declined_for_tls(stock):
    exchange = EapTls(stock.target, stock.supplicant())
    exchange.first()
    md5_challenge = bytes((1, 9, 0, 22, 4, 16)) + bytes(16)
    request = exchange.receive(_reply(ACCESS_CHALLENGE, md5_challenge))
    values = dict(packet.parse_attributes(bytes(20) + request.attributes))
    assert values[packet.EAP_MESSAGE] == bytes((2, 9, 0, 6, 3, 13))
    assert values[packet.STATE] == b"state"


@pytest.mark.parametrize(
    ("code", "eap", "fault"),
    [
        (packet.ACCESS_ACCEPT, bytes((3, 1, 0, 4)), "accepted although TLS did not complete"),
        (packet.ACCESS_REJECT, bytes((4, 1, 0, 4)), "reject instead of accept"),
        (packet.ACCESS_CHALLENGE, b"", "Access-Challenge without an EAP request"),
    ],
)
def test_conversation_that_ends_too_early_is_a_fault(stock, code, eap, fault):
    exchange = EapTls(stock.target, stock.supplicant())
    exchange.first()
    assert exchange.receive(_reply(code, eap)) == fault


def _reply(code: int, eap: bytes) -> bytes:
    return bytes((code,)) + bytes(19) + encode_eap_message(eap) + encode_attribute(packet.STATE, "state")
