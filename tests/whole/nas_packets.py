"""Single packets of one NAS of a tenant, well-formed and malformed."""

import os
import select
import socket
from itertools import count
from typing import Self

from loadtest.bench_tenants import ProvisionedTenant
from loadtest.tenants import BenchEndpoint
from loadtest.workloads import BENCH_NAS, START, AccountingRequest, calling_station, mab_request
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import encode_attribute

# The wait for a response on a busy machine. Counters prove silence, so no test waits long for it.
ANSWER_SECONDS = 10.0
SILENCE_SECONDS = 0.3


class NasPackets:
    def __init__(self, made: ProvisionedTenant, *, secret: bytes = b"", address: str = "127.0.0.1") -> None:
        """Create the NAS with its own `address`. `secret` replaces the secret of the tenant."""
        self.made = made
        self.secret = secret if secret else made.target.secret
        self._sockets = {}
        # Identifiers in sequence, so that a late response is not assigned to another request.
        self._ids = count(os.urandom(1)[0])
        for acct, port in ((False, made.target.auth_port), (True, made.target.acct_port)):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((address, 0))
            sock.connect((made.target.host, port))
            self._sockets[acct] = sock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._sockets.values():
            sock.close()

    @property
    def device(self) -> BenchEndpoint:
        return self.made.tenant.endpoints[0]

    def _next_id(self) -> int:
        return next(self._ids) & 0xFF

    def mab_packet(self, mac: str = "", *, secret: bytes | None = None) -> bytes:
        request = mab_request(self.made.target, mac or self.device.mac, BENCH_NAS.attributes()).first()
        secret = secret or self.secret
        return packet.make_access_request(self._next_id(), os.urandom(16), request.attributes, secret, request.password)

    def accounting_packet(self, session_id: str, *, secret: bytes | None = None) -> bytes:
        mac = self.device.mac
        attributes = encode_attribute(packet.USER_NAME, mac) + calling_station(mac) + BENCH_NAS.attributes()
        record = AccountingRequest(self.made.target, START, session_id, attributes)
        return packet.make_accounting_request(self._next_id(), record.attributes, secret or self.secret)

    def send(self, datagram: bytes, *, acct: bool = False) -> None:
        self._sockets[acct].send(datagram)

    def is_silent(self) -> bool:
        """Whether no packet got a response."""
        return not select.select(list(self._sockets.values()), [], [], SILENCE_SECONDS)[0]

    def exchange(self, datagram: bytes, *, acct: bool = False, seconds: float = ANSWER_SECONDS) -> bytes:
        """The verified response, empty without a response."""
        sock = self._sockets[acct]
        sock.settimeout(seconds)
        try:
            sock.send(datagram)
            while True:
                reply = sock.recv(4096)
                # A response to an earlier request, which had timed out.
                if reply[1] == datagram[1]:
                    break
        except (TimeoutError, ConnectionRefusedError):
            return b""
        packet.parse_response(reply, datagram, self.secret)
        return reply

    def verdict(self, mac: str = "") -> int:
        """The code of the response to a MAC authentication, 0 without a response."""
        reply = self.exchange(self.mab_packet(mac))
        return reply[0] if reply else 0

    def is_admitted(self, mac: str = "") -> bool:
        reply = self.exchange(self.mab_packet(mac), seconds=1)
        return bool(reply) and reply[0] == packet.ACCESS_ACCEPT
