"""A RADIUS client that sends many requests and checks every response, in one epoll loop over a few UDP sockets.

    client = RadiusClient()
    client.ask(Mab(target, "001122334455", vlan="20"))            # one exchange; raises UnexpectedReply
    run = client.run(source, seconds=5, window=64)                # many; counts in run.tallies, run.faults()

An *exchange* is an object with the members of `Exchange`: `loadtest/workloads.py` has exchanges for MAB, PAP and
accounting, and `loadtest/eap_tls_client.py` for EAP-TLS. A *source* is a function that returns the next exchange, or
None if no exchange is left. The client needs about 0.02 ms per MAB request. So the server is the bottleneck, not the
client.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import NamedTuple, Protocol, Self

from loadtest.tally import RunResult
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    ACCOUNTING_REQUEST,
    ACCOUNTING_RESPONSE,
    ForgedResponse,
    MalformedPacket,
    UnsignedResponse,
    make_access_request,
    make_accounting_request,
    parse_response,
)

CODE_NAMES = {
    ACCESS_ACCEPT: "accept",
    ACCESS_REJECT: "reject",
    ACCESS_CHALLENGE: "challenge",
    ACCOUNTING_RESPONSE: "acknowledged",
}
# NASes commonly wait 2 to 5 s. With a shorter timeout, the client would retransmit during the reject delay of 1 s.
TIMEOUT_SECONDS = 2.0
TRIES = 3


class UnexpectedReply(Exception):
    """An exchange did not get the expected response, or got no response."""


@dataclass(frozen=True, slots=True)
class Target:
    """Address, ports and secret of a tenant or a peer."""

    host: str
    auth_port: int
    acct_port: int
    secret: bytes


class Request(NamedTuple):
    """A request to send: encoded attributes, and the password for User-Password."""

    attributes: bytes
    password: bytes | None = None


class Exchange(Protocol):
    # Kind of the exchange, such as "mab". The client counts the exchanges of each kind.
    kind: str
    target: Target
    # Code of the requests: ACCESS_REQUEST, STATUS_SERVER or ACCOUNTING_REQUEST.
    code: int

    def first(self) -> Request:
        """Return the first request. The client calls this method when it sends the request."""

    def receive(self, reply: bytes) -> Request | str:
        """Process a verified reply.

        Returns the next request. At the end of the exchange, returns the text of the fault, or "" without a fault.
        """


Source = Callable[[], Exchange | None]


class _PendingRequest:
    __slots__ = ("deadline", "exchange", "identifier", "sent_at", "started_at", "tries", "wire")

    def __init__(self, exchange: Exchange, identifier: int, wire: bytes, started_at: float, now: float) -> None:
        self.exchange = exchange
        self.identifier = identifier
        self.wire = wire
        # The latency of a conversation is measured from its first request.
        self.started_at = started_at
        self.sent_at = now
        self.deadline = 0.0
        self.tries = 1


class _Lane:
    """A connected UDP socket, which has 256 identifiers (RFC 2865 3)."""

    __slots__ = ("free", "pending", "secret", "socket")

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.connect((host, port))
        self.secret = secret
        self.free = deque(range(256))
        self.pending: list[_PendingRequest | None] = [None] * 256


class RadiusClient:
    """Sends exchanges to servers. Not thread-safe. Close the client, or use it in a `with` block."""

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS, tries: int = TRIES) -> None:
        self._timeout_seconds = timeout_seconds
        self._tries = tries
        self._lanes: dict[tuple[str, int, bytes], list[_Lane]] = {}
        self._by_descriptor: dict[int, _Lane] = {}
        self._epoll = select.epoll()
        # Pending requests in the order of their deadlines, because all requests have the same timeout.
        self._waiting: deque[tuple[_Lane, _PendingRequest]] = deque()
        self._in_flight = 0
        self._random = b""
        self._run = RunResult()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for lane in self._by_descriptor.values():
            lane.socket.close()
        self._by_descriptor.clear()
        self._lanes.clear()
        self._epoll.close()

    def ask(self, exchange: Exchange) -> RunResult:
        """Run one exchange to the end. Raises UnexpectedReply if the result is not as expected."""
        run = self.run(_once(exchange), count=1, window=1)
        if run.faults():
            place = f"{exchange.target.host}, ports {exchange.target.auth_port} and {exchange.target.acct_port}"
            raise UnexpectedReply(f"{place}: " + ", ".join(run.faults()))
        return run

    def run(
        self,
        source: Source,
        *,
        seconds: float | None = None,
        count: int | None = None,
        window: int = 64,
        per_second: float | None = None,
    ) -> RunResult:
        """Run exchanges of `source`, at most `window` at a time and `per_second` on average.

        Ends after `seconds`, after `count` exchanges, or, without `seconds`, when the source returns None. The method
        then waits for running exchanges.
        """
        if seconds is None and count is None:
            raise ValueError("a run needs a bound: seconds, count or both")
        run = self._run = RunResult()
        began, start = 0, perf_counter()
        end = start + seconds if seconds is not None else float("inf")
        limit = count if count is not None else float("inf")
        while True:
            now = perf_counter()
            starving = False
            if now < end:
                due = limit if per_second is None else min(limit, (now - start) * per_second + 1)
                while self._in_flight < window and began < due:
                    exchange = source()
                    if exchange is None:
                        starving = True
                        break
                    self._begin(exchange, exchange.first(), None)
                    began += 1
            if not self._in_flight:
                if now >= end or began >= limit or (starving and seconds is None):
                    break
                sleep(0.0005)
                continue
            self._poll(0.001 if now < end and per_second is not None else 0.05)
            self._retransmit()
        run.seconds = perf_counter() - start
        return run

    def _begin(self, exchange: Exchange, request: Request, started_at: float | None) -> None:
        lane = self._lane(exchange)
        identifier = lane.free.popleft()
        if exchange.code == ACCOUNTING_REQUEST:
            wire = make_accounting_request(identifier, request.attributes, lane.secret)
        else:
            if not self._random:
                self._random = os.urandom(4096)
            authenticator, self._random = self._random[:16], self._random[16:]
            wire = make_access_request(
                identifier, authenticator, request.attributes, lane.secret, request.password, code=exchange.code
            )
        now = perf_counter()
        pending = _PendingRequest(exchange, identifier, wire, now if started_at is None else started_at, now)
        pending.deadline = now + self._timeout_seconds
        lane.pending[identifier] = pending
        self._waiting.append((lane, pending))
        self._in_flight += 1
        self._run.requests += 1
        self._send(lane, wire)

    def _lane(self, exchange: Exchange) -> _Lane:
        target = exchange.target
        port = target.acct_port if exchange.code == ACCOUNTING_REQUEST else target.auth_port
        key = (target.host, port, target.secret)
        lanes = self._lanes.setdefault(key, [])
        for lane in lanes:
            if lane.free:
                return lane
        lane = _Lane(target.host, port, target.secret)
        lanes.append(lane)
        self._by_descriptor[lane.socket.fileno()] = lane
        self._epoll.register(lane.socket.fileno(), select.EPOLLIN)
        return lane

    @staticmethod
    def _send(lane: _Lane, wire: bytes) -> None:
        try:
            lane.socket.send(wire)
        except (BlockingIOError, ConnectionRefusedError):
            # Treat the packet as lost: the port is closed (ICMP), or a buffer is full. Retransmissions and timeouts
            # are counted.
            return

    def _poll(self, timeout: float) -> None:
        for descriptor, _ in self._epoll.poll(timeout):
            lane = self._by_descriptor[descriptor]
            receive = lane.socket.recv
            # Read a limited number of replies, so that one busy socket does not delay the other sockets.
            for _ in range(64):
                try:
                    reply = receive(4096)
                except BlockingIOError:
                    break
                except ConnectionRefusedError:
                    continue
                self._take(lane, reply)

    def _take(self, lane: _Lane, reply: bytes) -> None:
        now = perf_counter()
        pending = lane.pending[reply[1]] if len(reply) > 1 else None
        if pending is None:
            self._run.late += 1
            return
        try:
            parse_response(reply, pending.wire, lane.secret)
        except (MalformedPacket, ForgedResponse, UnsignedResponse) as exc:
            self._run.forged[str(exc)] += 1
            return
        self._release(lane, pending)
        exchange = pending.exchange
        outcome = exchange.receive(reply)
        if isinstance(outcome, Request):
            self._begin(exchange, outcome, pending.started_at)
            return
        tally = self._run.tally(exchange.kind)
        if outcome:
            tally.wrong[outcome] += 1
        else:
            tally.right += 1
        tally.latency.add(now - pending.started_at)

    def _release(self, lane: _Lane, pending: _PendingRequest) -> None:
        lane.pending[pending.identifier] = None
        lane.free.append(pending.identifier)
        self._in_flight -= 1

    def _retransmit(self) -> None:
        now = perf_counter()
        waiting = self._waiting
        while waiting:
            lane, pending = waiting[0]
            if lane.pending[pending.identifier] is not pending:
                waiting.popleft()
                continue
            if pending.deadline > now:
                return
            waiting.popleft()
            if pending.tries >= self._tries:
                self._release(lane, pending)
                self._run.tally(pending.exchange.kind).unanswered += 1
                continue
            pending.tries += 1
            pending.deadline = now + self._timeout_seconds
            waiting.append((lane, pending))
            self._run.retransmissions += 1
            self._send(lane, pending.wire)


def _once(exchange: Exchange) -> Source:
    exchanges = iter((exchange,))
    return lambda: next(exchanges, None)


def describe_unexpected_code(reply: bytes, code: int) -> str:
    """Return the fault text for a reply with an unexpected code."""
    return f"{CODE_NAMES.get(reply[0], reply[0])} instead of {CODE_NAMES.get(code, code)}"
