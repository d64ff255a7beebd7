"""Requests without Message-Authenticator: dropped, logged with the address, and answered only if the NAS is exempt."""

import os
import re
import socket

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import CALLED_STATION_ID, PROXY_STATE, SERVICE_TYPE, STATE, USER_NAME, encode_attribute
from radius.module.unsigned import MAX_REQUESTS, MAX_SOURCES, FloodFilter, LoggedSources
from tests.polling import until
from tests.radius.nas import SILENCE_SECONDS, Nas, named, without_signature
from tests.radius.standalone import OLD_NAS
from tests.radius.tenants import PRINTER

CALL_CHECK = named(PRINTER, PRINTER, (SERVICE_TYPE, 10))


def unsigned(nas: Nas, attributes: bytes = CALL_CHECK) -> bytes:
    """A PAP request without Message-Authenticator, as old switches send it."""
    signed = packet.make_access_request(os.urandom(1)[0], os.urandom(16), attributes, nas.key, PRINTER.encode())
    return without_signature(signed)


def logged(cell, address: str) -> list[str]:
    return re.findall(rf"admit: unsigned slot=(\d+) source={re.escape(address)}$", cell.log(), re.MULTILINE)


def is_silent(nas: Nas, attributes: bytes = CALL_CHECK) -> bool:
    return nas.exchange(unsigned(nas, attributes), seconds=SILENCE_SECONDS) is None


def is_accepted(nas: Nas) -> bool:
    """Whether an unsigned request gets an Access-Accept."""
    reply = nas.exchange(unsigned(nas))
    return reply is not None and reply[0] == packet.ACCESS_ACCEPT


def test_unsigned_request_is_dropped_and_logged_once(cell):
    nas = Nas(cell.bravo, "127.0.0.91")
    # The first request is also not UTF-8.
    for more in (encode_attribute(CALLED_STATION_ID, b"\xff\xfe\xfd"), b"", b""):
        assert is_silent(nas, CALL_CHECK + more)
    until(lambda: logged(cell, nas.address), "a line in the log")
    assert logged(cell, nas.address) == [str(cell.bravo.slot)]
    assert nas.ask(CALL_CHECK, password=PRINTER.encode())[0] == packet.ACCESS_REJECT
    # The only decision is about the signed request, although radiusd calls post-auth for dropped requests too.
    assert cell.decision().reason == "unknown-mac"


def test_exempt_nas_with_proxy_state_is_dropped_and_logged(cell):
    """A BlastRADIUS attacker hides the collision prefix in Proxy-State."""
    nas = Nas(cell.alpha, OLD_NAS)
    assert is_silent(nas, CALL_CHECK + encode_attribute(PROXY_STATE, b"chosen by an attacker"))
    until(lambda: logged(cell, OLD_NAS), "a line in the log")
    assert is_accepted(nas)
    # The signed request of a proxy is answered.
    proxied = CALL_CHECK + encode_attribute(PROXY_STATE, b"of a proxy")
    assert Nas(cell.alpha).ask(proxied, password=PRINTER.encode())[0] == packet.ACCESS_ACCEPT


@pytest.mark.parametrize("address", [OLD_NAS, "127.0.0.93"])
def test_state_of_another_conversation_is_useless_unsigned(cell, address):
    """Later packets of a conversation bypass the module, and must not bypass this check."""
    with_state = CALL_CHECK + encode_attribute(STATE, os.urandom(16)) + encode_attribute(PROXY_STATE, b"x")
    assert is_silent(Nas(cell.alpha, address), with_state)


def test_flood_of_unsigned_requests_never_reaches_radiusd(cell):
    """Signed requests and requests of exempt NASes are answered meanwhile.

    This must be the last test of this cell's filters.
    """
    before = cell.statistics()["access_requests"]
    for sent in range(10):
        with Nas(cell.alpha, f"127.0.3.{sent}").socket() as sending:
            for _ in range(500):
                sending.send(unsigned(Nas(cell.alpha)))
        cell.statistics()
    assert cell.statistics()["access_requests"] - before < 2_000
    assert is_accepted(Nas(cell.alpha, OLD_NAS))
    assert Nas(cell.alpha).ask(CALL_CHECK, password=PRINTER.encode())[0] == packet.ACCESS_ACCEPT


def test_decision_records_whether_an_exempt_nas_signed(cell):
    old = Nas(cell.alpha, OLD_NAS)
    assert old.exchange(unsigned(old)) is not None
    assert old.ask(CALL_CHECK, password=PRINTER.encode()) is not None
    assert [record.signature for record in cell.decisions()] == [("unsigned", OLD_NAS), ("signed", OLD_NAS)]
    cell.forget_records()
    # EAP is always signed, and most NASes must sign. Neither request proves a change.
    old.ask(encode_attribute(USER_NAME, "x") + packet.encode_eap_message(b"\x02\x01\x00\x05\x00"))
    Nas(cell.alpha).ask(CALL_CHECK, password=PRINTER.encode())
    assert [record.signature for record in cell.decisions()] == [(), ()]


def test_each_address_is_logged_once_a_minute():
    sources = LoggedSources()
    added = [sources.add(slot, "192.0.2.1", at) for slot, at in ((0, 600), (0, 659), (1, 659), (0, 660))]
    assert added == [True, False, True, True]


def test_flood_of_forged_addresses_is_limited():
    sources = LoggedSources()
    assert sum(sources.add(0, f"10.0.{n // 250}.{n % 250}", 600) for n in range(10_000)) == MAX_SOURCES
    assert sources.add(1, "192.0.2.1", 600)


class Bound:
    """A listener of this process, and a sender to it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def get(self, source: str, port: int) -> socket.socket:
        return self._listener

    def gets(self, datagram: bytes) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(datagram, self._listener.getsockname())
        try:
            return bool(self._listener.recv(4096))
        except BlockingIOError:
            return False


def test_filter_stays_for_the_rest_of_the_minute(cell):
    request = unsigned(Nas(cell.alpha))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        bound = Bound(listener)
        shield = FloodFilter(bound, {0: ()})
        for _ in range(MAX_REQUESTS):
            shield.count(0, "192.0.2.1", 1, 600)
            shield.count(1, "192.0.2.1", 1, 600)
        assert bound.gets(request)
        # Slot 1 has no filter, because its exemptions may change at any time.
        shield.count(1, "192.0.2.1", 1, 659)
        assert bound.gets(request)
        shield.count(0, "192.0.2.1", 1, 659)
        assert shield.is_up
        assert not bound.gets(request)
        shield.lift(659)
        assert not bound.gets(request)
        shield.lift(660)
        assert not shield.is_up
        assert bound.gets(request)
