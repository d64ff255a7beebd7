"""Load of NASes that send at a steady rate and never retransmit, so lost and late requests are visible."""

import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cli.demo.tools import RadiusServer
from nac.kit import radius_packet as packet

PER_SECOND = 400
# NASes of one tenant, each with its own address. A quarter of the NASes send accounting.
_NASES = 8
# A request without a response after this time counts as dropped: a NAS would have retransmitted it.
PATIENCE_SECONDS = 5.0
_ACCT_STATUS_TYPE, _ACCT_SESSION_ID, _INTERIM = 40, 44, 3


@dataclass(frozen=True)
class LoadFigures:
    sent: int
    dropped: int
    slowest_ms: float
    # Responses that took more than 50 ms.
    late: int

    def __str__(self) -> str:
        slowest = f"slowest {self.slowest_ms:.0f} ms"
        return f"{self.sent} requests, {self.dropped} dropped, {self.late} later than 50 ms, {slowest}"


@dataclass
class _Nas:
    server: RadiusServer
    mac: str
    number: int
    accounts: bool
    # During a rotation, the second secret, after the NAS has received it.
    secret: str = ""
    channel: socket.socket = field(init=False)
    waiting: dict[int, float] = field(default_factory=dict)
    identifier: int = 0

    def __post_init__(self) -> None:
        is_six = ":" in self.server.host
        self.channel = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM)
        self.channel.bind(("::1" if is_six else f"127.0.1.{self.number}", 0))
        self.channel.setblocking(False)

    def send(self, now: float) -> None:
        self.identifier = (self.identifier + 1) % 256
        assert self.identifier not in self.waiting, "more is under way than there are identifiers"
        key = (self.secret or self.server.secret).encode()
        body = packet.encode_attribute(packet.USER_NAME, self.mac) + packet.encode_attribute(
            packet.CALLING_STATION_ID, self.mac
        )
        body += packet.encode_attribute(packet.NAS_IDENTIFIER, f"sw-{self.number}")
        if self.accounts:
            body += packet.encode_attribute(_ACCT_STATUS_TYPE, _INTERIM) + packet.encode_attribute(
                _ACCT_SESSION_ID, f"s-{self.number}"
            )
            datagram, port = packet.make_accounting_request(self.identifier, body, key), self.server.acct_port
        else:
            datagram = packet.make_access_request(self.identifier, os.urandom(16), body, key, self.mac.encode())
            port = self.server.auth_port
        self.channel.sendto(datagram, (self.server.host, port))
        self.waiting[self.identifier] = now


class Load:
    """Load of several tenants until stopped. `figures` covers a period."""

    def __init__(self, servers: Sequence[RadiusServer], mac: str, *, per_second: int = PER_SECOND) -> None:
        self._pause = 1 / per_second
        self._nases = [
            _Nas(server, mac, 1 + _NASES * place + number, accounts=number % 4 == 3)
            for number in range(_NASES)
            for place, server in enumerate(servers)
        ]
        # For each request: the time sent, the server, and the duration. The duration of a dropped request is None.
        self._done: dict[int, list[tuple[float, float | None]]] = {place: [] for place in range(len(servers))}
        self._servers = list(servers)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join()
            for nas in self._nases:
                nas.channel.close()

    def change_over(self, server: RadiusServer, secret: str) -> None:
        """Switch the server's NASes to `secret`. They drop their pending requests."""
        for nas in self._nases:
            if nas.server is server:
                nas.secret = secret

    def settle(self, until: float) -> None:
        """Wait until each request from before `until` is answered or counts as dropped. Call it while the load runs."""
        while any(sent < until for nas in self._nases for sent in list(nas.waiting.values())):
            time.sleep(0.05)

    def figures(self, server: RadiusServer, since: float, until: float) -> LoadFigures:
        """Figures of the requests sent in the period. Call `settle` first."""
        done = [took for at, took in self._done[self._servers.index(server)] if since <= at < until]
        answered = [took * 1000 for took in done if took is not None]
        return LoadFigures(
            len(done), len(done) - len(answered), max(answered, default=0.0), sum(took > 50 for took in answered)
        )

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for nas in self._nases:
                selector.register(nas.channel, selectors.EVENT_READ, nas)
            turns = deque(self._nases)
            due = time.monotonic()
            while not self._end.is_set():
                now = time.monotonic()
                while due <= now:
                    turns[0].send(now)
                    turns.rotate(-1)
                    due += self._pause
                for key, _ in selector.select(max(0.0, due - time.monotonic())):
                    self._receive(key.data)
                self._give_up()

    def _receive(self, nas: _Nas) -> None:
        reply = nas.channel.recv(4096)
        sent = nas.waiting.pop(reply[1], None)
        if sent is not None:
            self._note(nas, sent, time.monotonic() - sent)

    def _give_up(self) -> None:
        limit = time.monotonic() - PATIENCE_SECONDS
        for nas in self._nases:
            while nas.waiting and (first := next(iter(nas.waiting.items())))[1] < limit:
                del nas.waiting[first[0]]
                self._note(nas, first[1], None)

    def _note(self, nas: _Nas, sent: float, took: float | None) -> None:
        self._done[self._servers.index(nas.server)].append((sent, took))
