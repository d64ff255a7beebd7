"""The RADIUS client with misbehaving servers (sockets of the test) and with an unchanged FreeRADIUS."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import perf_counter

import pytest

from loadtest.radius_client import RadiusClient, Target, UnexpectedReply
from loadtest.workloads import STOP, AccountingSource, BenchDevice, PapRequest, mab_request, mab_source
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT

SECRET = b"secret of the test"
# The handler of the server: returns the datagrams to send for a request.
Behaviour = Callable[[bytes], list[bytes]]


def accept(request: bytes, secret: bytes = SECRET) -> bytes:
    return packet.make_response(ACCESS_ACCEPT, request[1], request[4:20], b"", secret)


@contextmanager
def server(behaviour: Behaviour) -> Iterator[tuple[Target, list[bytes]]]:
    """A server on loopback: its address, and the packets that it has received."""
    received: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                request, sender = sock.recvfrom(4096)
                if not request:
                    return
                received.append(request)
                for reply in behaviour(request):
                    sock.sendto(reply, sender)

        thread = Thread(target=serve)
        thread.start()
        port = sock.getsockname()[1]
        try:
            yield Target("127.0.0.1", port, port, SECRET), received
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ending:
                ending.sendto(b"", ("127.0.0.1", port))
            thread.join()


def quick_client(tries: int = 2) -> RadiusClient:
    return RadiusClient(timeout_seconds=0.05, tries=tries)


def endless(target: Target):
    return lambda: mab_request(target, "020000000001")


def test_silent_server_counts_as_unanswered_after_all_tries():
    with server(lambda request: []) as (target, received), quick_client(tries=3) as client:
        run = client.run(endless(target), count=4, window=4)
    assert run.tallies["mab"].unanswered == 4
    assert (run.requests, run.retransmissions, len(received)) == (4, 8, 12)
    assert len(set(received)) == 4
    # More requests than identifiers open another socket.
    with server(lambda request: []) as (target, _), quick_client(tries=1) as client:
        run = client.run(endless(target), count=600, window=600)
    assert run.tallies["mab"].unanswered == run.requests == 600


def test_lost_first_copy_is_retransmitted():
    seen: set[bytes] = set()

    def second_copy_only(request: bytes) -> list[bytes]:
        known = request in seen
        seen.add(request)
        return [accept(request)] if known else []

    with server(second_copy_only) as (target, _), quick_client() as client:
        run = client.run(endless(target), count=3)
    assert (run.right, run.retransmissions, run.faults()) == (3, 3, {})


def test_forged_reply_is_dropped_and_the_valid_one_accepted():
    def forge_then_answer(request: bytes) -> list[bytes]:
        return [accept(request, b"another secret"), accept(request)]

    with server(forge_then_answer) as (target, _), quick_client() as client:
        run = client.run(endless(target), count=5)
    assert run.right == 5
    assert run.faults() == {"reply dropped: Response Authenticator is wrong": 5}


def test_second_reply_to_a_request_is_late_and_not_counted():
    with server(lambda request: [accept(request)] * 2) as (target, _), quick_client() as client:
        run = client.run(endless(target), count=20, window=1)
    assert (run.right, run.faults()) == (20, {})
    assert run.late > 0


def test_unexpected_verdict_is_a_fault():
    with server(lambda request: [accept(request)]) as (target, _), quick_client() as client:
        with pytest.raises(UnexpectedReply, match="accept instead of reject"):
            client.ask(mab_request(target, "020000000001", expected=ACCESS_REJECT))
        with pytest.raises(UnexpectedReply, match="VLAN '' instead of '20'"):
            client.ask(mab_request(target, "020000000001", vlan="20"))


def test_rate_is_kept():
    with server(lambda request: [accept(request)]) as (target, _), quick_client() as client:
        start = perf_counter()
        run = client.run(endless(target), count=40, per_second=200)
        elapsed = perf_counter() - start
    assert run.right == 40
    assert 0.18 <= elapsed < 2


def test_stock_server_returns_the_vlan_of_known_macs_only(stock, client):
    run = client.run(mab_source(stock.devices), count=300, window=32)
    assert (run.right, run.faults()) == (300, {})
    client.ask(mab_request(stock.target, "02ffffffffff", expected=ACCESS_REJECT))
    client.ask(PapRequest(stock.target, stock.devices[0].mac, "wrong", expected=ACCESS_REJECT))


def test_acknowledged_records_match_the_servers_detail_file(stock, client):
    source = AccountingSource(stock.devices, prefix="exact", open_sessions=20)
    run = client.run(source, count=200, window=16)
    source.close()
    run.merge(client.run(source, count=1000, window=16))
    assert run.faults() == {}
    assert len(source.acknowledged) == run.right == len(set(source.acknowledged))
    text = "".join(path.read_text() for path in (stock.run / "radacct/127.0.0.1").iterdir())
    names = {"Start": 1, "Stop": 2, "Interim-Update": 3}
    written = [
        (found["session"], names[found["status"]])
        for found in re.finditer(r'Status-Type = (?P<status>\S+)\n\tAcct-Session-Id = "(?P<session>exact-\w+)"', text)
    ]
    assert sorted(written) == sorted((record.session_id, record.status) for record in source.acknowledged)
    # Closing the client ended every session.
    sessions = {record.session_id for record in source.acknowledged}
    assert len([record for record in source.acknowledged if record.status == STOP]) == len(sessions)


def test_accounting_counters_rise_and_carry_into_gigawords(stock):
    source = AccountingSource(stock.devices, prefix="count", interims=1, open_sessions=0)
    octets = []
    for _ in range(3):
        exchange = source()
        values = dict(packet.parse_attributes(bytes(20) + exchange.first().attributes))
        number = {key: int.from_bytes(value, "big") for key, value in values.items()}
        octets.append((number.get(packet.ACCT_OUTPUT_GIGAWORDS, 0) << 32) + number.get(packet.ACCT_OUTPUT_OCTETS, 0))
        assert exchange.receive(bytes((packet.ACCOUNTING_RESPONSE,))) == ""
    assert octets == [0, 5_000_000_000, 10_000_000_000]


def test_unacknowledged_record_is_not_listed():
    with server(lambda request: []) as (target, _), quick_client() as client:
        source = AccountingSource([BenchDevice(target, "020000000001", None)], prefix="lost")
        client.run(source, count=3, window=3)
    assert source.acknowledged == []
