"""Packets: signed responses, packets that get no response, and retransmitted packets."""

import os
import select
import socket
import struct
import time

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import CALLING_STATION_ID, MESSAGE_AUTHENTICATOR, SERVICE_TYPE, USER_NAME, encode_attribute
from radius.agent.radiusd import probe
from tests.radius.nas import PATIENCE_SECONDS, SILENCE_SECONDS, Nas, mab, named, radclient
from tests.radius.standalone import FREE_SLOT_SECRET, LOOPBACK, OLD_NAS, OWN_SECRET, OWN_SECRET_NAS, STATUS_SECRET
from tests.radius.supplicant import eap_tls, new_mac
from tests.radius.tenants import PRINTER


def header(code: int, length: int, body: bytes = b"") -> bytes:
    return struct.pack("!BBH", code, 7, length) + os.urandom(16) + body


def unsigned(code: int, *attributes: bytes) -> bytes:
    body = b"".join(attributes)
    return header(code, 20 + len(body), body)


def signed(nas: Nas, attributes: bytes, *, code: int = packet.ACCESS_REQUEST) -> bytes:
    return packet.make_access_request(7, os.urandom(16), attributes, nas.key, code=code)


NAME = encode_attribute(USER_NAME, PRINTER)
CALL_CHECK = NAME + encode_attribute(CALLING_STATION_ID, PRINTER) + encode_attribute(SERVICE_TYPE, 10)
ZERO_SIGNATURE = encode_attribute(MESSAGE_AUTHENTICATOR, bytes(16))
START = encode_attribute(packet.ACCT_STATUS_TYPE, 1) + encode_attribute(packet.ACCT_SESSION_ID, "1")

MALFORMED = {
    "nothing": b"",
    "one octet": b"\x01",
    "shorter than a header": unsigned(1)[:19],
    "length below a header": header(1, 19),
    "length 0": header(1, 0),
    "length beyond the datagram": header(1, 60, NAME),
    "length beyond every packet": header(1, 65535, NAME),
    "attribute of length 0": header(1, 22, b"\x01\x00"),
    "attribute of length 1": header(1, 22, b"\x01\x01"),
    "attribute beyond the packet": header(1, 24, b"\x01\x20ab"),
    "half an attribute": header(1, 21, b"\x01"),
    "an attribute of length 0 behind a good one": header(1, 20 + len(NAME) + 2, NAME + b"\x00\x00"),
    "signature too short": unsigned(1, NAME, encode_attribute(MESSAGE_AUTHENTICATOR, bytes(15))),
    "signature too long": unsigned(1, NAME, encode_attribute(MESSAGE_AUTHENTICATOR, bytes(17))),
    "signature of zeros": unsigned(1, ZERO_SIGNATURE, NAME),
    "signature missing": unsigned(1, CALL_CHECK),
    "status request without signature": unsigned(12),
    "EAP without signature": unsigned(1, NAME, encode_attribute(packet.EAP_MESSAGE, b"\x02\x00\x00\x05\x01")),
    "201 attributes": unsigned(1, NAME * 201),
    "code 0": unsigned(0, ZERO_SIGNATURE),
    "an answer instead of a question": unsigned(2, ZERO_SIGNATURE),
    "a challenge": unsigned(11, ZERO_SIGNATURE),
    "accounting at the authentication port": unsigned(4, NAME),
    "Disconnect-Request": unsigned(40, NAME),
    "CoA-Request": unsigned(43, NAME),
    "code 200": unsigned(200, NAME),
    "code 255, all octets set": b"\xff" * 4096,
}
MALFORMED_ACCOUNTING = {
    "nothing": b"",
    "authenticator of zeros": unsigned(4, NAME)[:4] + bytes(16) + NAME,
    "authenticator at random": unsigned(4, NAME),
    "authentication at the accounting port": unsigned(1, ZERO_SIGNATURE, CALL_CHECK),
    "attribute of length 0": header(4, 22, b"\x01\x00"),
}


def answered(address: str, port: int, datagrams: dict[str, bytes]) -> list[str]:
    """Names of the datagrams that got a response."""
    sockets = {}
    for name, datagram in datagrams.items():
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        asking.connect((address, port))
        asking.send(datagram)
        sockets[asking] = name
    time.sleep(SILENCE_SECONDS)
    readable = select.select(sockets, [], [], 0)[0]
    names = [sockets[each] for each in readable]
    for each in sockets:
        each.close()
    return names


def assert_accepted(nas, request):
    reply = nas.exchange(request)
    assert reply is not None
    assert reply[0] == packet.ACCESS_ACCEPT


def is_silent(nas, request, **options):
    return nas.exchange(request, seconds=SILENCE_SECONDS, **options) is None


def test_malformed_changed_or_cut_request_gets_no_response(cell):
    whole = signed(Nas(cell.alpha), CALL_CHECK)
    cut = {f"cut at {end}": whole[:end] for end in range(len(whole))}
    changed = {f"{at}": whole[:at] + bytes((whole[at] ^ 0x55,)) + whole[at + 1 :] for at in range(len(whole))}
    assert answered(LOOPBACK, cell.alpha.auth_port, MALFORMED | cut | changed) == []
    assert cell.decisions() == []
    # Octets after the packet's length are padding, and are ignored (RFC 2865 3).
    assert_accepted(Nas(cell.alpha), whole + b"padding")


def test_malformed_accounting_gets_no_response(cell):
    assert answered(LOOPBACK, cell.alpha.acct_port, MALFORMED_ACCOUNTING) == []
    assert cell.accounting() == []
    assert Nas(cell.alpha).account(START) is not None


@pytest.mark.parametrize(
    ("at", "secret"),
    [
        ("alpha", "not-the-secret-of-alpha"),
        ("alpha", "secret-of-bravo-0123456789"),
        ("bravo", "secret-of-alpha-0123456789"),
    ],
)
def test_wrong_secret_gets_no_response(cell, at, secret):
    """The secret of another tenant is as wrong as any secret."""
    tenant = cell.tenants[at]
    nas, name = Nas(tenant, secret=secret), tenant.mac(PRINTER)
    attributes, password = mab(name)
    assert is_silent(nas, packet.make_access_request(1, os.urandom(16), attributes, nas.key, password))
    assert radclient(tenant, f'User-Name="{name}"', secret=secret, silence=True).code == ""
    assert nas.account(START, seconds=SILENCE_SECONDS) is None
    assert cell.decisions() == []
    assert cell.accounting() == []


def test_only_the_exempt_nas_may_omit_the_signature(cell):
    assert_accepted(Nas(cell.alpha, OLD_NAS), unsigned(1, CALL_CHECK))
    assert cell.decision().nas_address == OLD_NAS
    assert is_silent(Nas(cell.alpha, "127.0.0.67"), unsigned(1, CALL_CHECK))
    # A wrong signature is not an omitted one.
    assert is_silent(Nas(cell.alpha, OLD_NAS), unsigned(1, ZERO_SIGNATURE, CALL_CHECK))


def test_nas_with_its_own_secret_is_answered_only_with_it(cell):
    assert Nas(cell.alpha, OWN_SECRET_NAS, OWN_SECRET).ask(CALL_CHECK)[0] == packet.ACCESS_ACCEPT
    for nas in (Nas(cell.alpha, OWN_SECRET_NAS), Nas(cell.alpha, LOOPBACK, OWN_SECRET)):
        assert is_silent(nas, signed(nas, CALL_CHECK))


def test_response_begins_with_its_signature(cell):
    """An attacker could choose attributes before the signature (BlastRADIUS, CVE-2024-3596)."""
    accept = Nas(cell.alpha).ask(NAME + encode_attribute(CALLING_STATION_ID, PRINTER), password=PRINTER.encode())
    assert accept[0] == packet.ACCESS_ACCEPT
    assert packet.parse_attributes(accept)[0][0] == MESSAGE_AUTHENTICATOR
    # RFC 2865 5.44 allows no other of its attributes in a reject.
    reject = Nas(cell.alpha).ask(NAME, password=b"wrong")
    assert [number for number, _ in packet.parse_attributes(reject)] == [MESSAGE_AUTHENTICATOR]


@pytest.mark.parametrize("client", ["laptop", "revoked"])
def test_every_eap_response_begins_with_its_signature(cell, client):
    output = eap_tls(cell.alpha, cell.alpha.clients[client]).run().output
    _, *answers = output.split("Received RADIUS message")
    assert answers
    for answer in answers:
        assert "Attribute 80 (Message-Authenticator)" in answer.splitlines()[2]


def test_proxy_state_is_returned_in_order(cell):
    """All Proxy-State attributes are returned unmodified and in order, also in rejects (RFC 2865 5.33)."""
    states = encode_attribute(33, b"one") + encode_attribute(33, b"two")
    for password in (PRINTER.encode(), b"wrong"):
        reply = Nas(cell.alpha).ask(NAME + states, password=password)
        assert [value for number, value in packet.parse_attributes(reply) if number == 33] == [b"one", b"two"]


def test_status_server_is_answered_at_every_port(cell):
    """A Status-Server request gets an Access-Accept or an Accounting-Response (RFC 5997 2.3)."""
    for tenant in cell.tenants.values():
        nas = Nas(tenant)
        assert nas.ask(b"", code=packet.STATUS_SERVER)[0] == packet.ACCESS_ACCEPT
        reply = nas.exchange(signed(nas, b"", code=packet.STATUS_SERVER), port=tenant.acct_port)
        assert reply is not None
        assert reply[0] == packet.ACCOUNTING_RESPONSE
    assert cell.decisions() == []


def test_agent_health_check_succeeds_and_is_not_recorded(cell):
    before = cell.log()
    assert probe.is_serving(LOOPBACK, cell.config.status_port, STATUS_SECRET, seconds=5)
    assert not probe.is_serving(LOOPBACK, cell.config.status_port, "another-secret", seconds=0.3)
    assert probe.is_deciding(LOOPBACK, cell.free_slot.auth_port, FREE_SLOT_SECRET, seconds=5)
    for tenant in cell.tenants.values():
        assert probe.is_deciding(LOOPBACK, tenant.auth_port, tenant.secret, seconds=5)
        assert not probe.is_deciding(LOOPBACK, tenant.auth_port, "another-secret", seconds=0.3)
    assert cell.decisions() == []
    assert "not-ready" not in cell.log().removeprefix(before)


def test_late_retransmission_gets_the_same_answer(cell):
    """Cisco's default timeout is 5 s."""
    nas = Nas(cell.alpha)
    first_packet = named("laptop", new_mac()) + packet.encode_eap_message(b"\x02\0\0\x0b\x01laptop")
    datagrams = {
        packet.ACCESS_ACCEPT: packet.make_access_request(1, bytes(16), CALL_CHECK, nas.key, PRINTER.encode()),
        packet.ACCESS_CHALLENGE: packet.make_access_request(2, bytes(16), first_packet, nas.key),
    }
    with nas.socket() as asking:
        asking.settimeout(PATIENCE_SECONDS)

        def exchange(datagram):
            asking.send(datagram)
            return asking.recv(4096)

        answers = {code: exchange(datagram) for code, datagram in datagrams.items()}
        assert {code: answer[0] for code, answer in answers.items()} == {code: code for code in datagrams}
        time.sleep(5.2)
        assert {code: exchange(datagram) for code, datagram in datagrams.items()} == answers
    assert len(cell.decisions()) == 1
