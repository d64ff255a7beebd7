"""Responds to radiusd's login requests over UDP. All queues of the server have a maximum length."""

import asyncio
import logging
import socket
from collections import Counter, OrderedDict
from typing import Protocol, cast

from nac.inventory.identity_sources.settings import MAX_LOGIN_SECONDS
from nac.inventory.identity_sources.verifier_messages import ResultTooLong, VerificationResult, encode_result
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from radius.verifier.packet import (
    Login,
    RejectedDatagram,
    UnreadableLogin,
    make_response_packet,
    parse_login,
)

log = logging.getLogger(__name__)

# Limit of simultaneous logins of all tenants; as many as 32 of radiusd's sockets can have.
MAX_UNDER_WAY = 8192
# Limit of simultaneous logins of one tenant, so that its slow sources do not delay other tenants.
MAX_PER_SLOT = 512
# Limit of delayed responses. Further responses are sent at once.
MAX_HELD = 4096
# Limit of stored responses. A stored response is sent again if the NAS, and therefore radiusd, repeats a request.
KEPT_ANSWERS = 4096

Address = tuple[str, int]
# Key of a request: radiusd's address, packet identifier and authenticator. A repeated request has the same key.
_LoginKey = tuple[Address, int, bytes]


class VerifyLogin(Protocol):
    async def __call__(self, slot: int, name: bytes, password: bytes, /) -> VerificationResult: ...


class PredictReject(Protocol):
    def __call__(self, login: Login, answer: VerificationResult, arrived_at: float, held_until: float, /) -> bool: ...


class VerifierServer(asyncio.DatagramProtocol):
    """Responds to logins.

    radiusd delays only rejects that radiusd decides itself. So the server itself delays each response that leads to an
    Access-Reject, until `reject_delay_seconds` after the request. This delay does not extend the time limit of a login.
    """

    def __init__(
        self,
        secret: bytes,
        verify: VerifyLogin,
        *,
        reject_delay_seconds: float = 0,
        expect_reject: PredictReject = lambda login, answer, arrived_at, held_until: not answer.verified,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._secret = secret
        self._verify = verify
        self._expect_reject = expect_reject
        self._reject_delay_seconds = min(reject_delay_seconds, MAX_LOGIN_SECONDS)
        self._transport: asyncio.DatagramTransport | None = None
        self._under_way: dict[_LoginKey, asyncio.Task[None]] = {}
        self._of_slot: Counter[int] = Counter()
        self._held: set[_LoginKey] = set()
        self._answered: OrderedDict[_LoginKey, bytes] = OrderedDict()

    @property
    def is_idle(self) -> bool:
        return not self._under_way and not self._held

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        try:
            login = parse_login(data, self._secret)
        except UnreadableLogin as exc:
            key = (addr, exc.login.identifier, exc.login.authenticator)
            self._answer(key, exc.login, VerificationResult("no-credentials", str(exc)))
            return
        except RejectedDatagram as exc:
            self.counters["dropped"] += 1
            log.warning("dropped a datagram from %s:%d: %s", addr[0], addr[1], exc)
            return
        key = (addr, login.identifier, login.authenticator)
        if key in self._under_way or key in self._held:
            return
        answered = self._answered.get(key)
        if answered is not None:
            self._send(answered, addr)
            return
        if len(self._under_way) >= MAX_UNDER_WAY or self._of_slot[login.slot] >= MAX_PER_SLOT:
            self._answer(key, login, VerificationResult("verifier-busy"))
            return
        task = asyncio.get_running_loop().create_task(self._serve(key, login))
        self._under_way[key] = task
        self._of_slot[login.slot] += 1

    async def _serve(self, key: _LoginKey, login: Login) -> None:
        loop = asyncio.get_running_loop()
        arrived_at = loop.time()
        reject_at = arrived_at + self._reject_delay_seconds
        try:
            answer = await self._verify(login.slot, login.name, login.password)
        except Exception:  # house-rule: the edge of our code; an explicit reject, with the traceback in the log
            log.exception("cannot verify a login")
            answer = VerificationResult("internal-error")
        finally:
            self._under_way.pop(key, None)
            self._of_slot[login.slot] -= 1
        answer = _fit_into_packet(answer)
        if not self._reject_delay_seconds:
            self._answer(key, login, answer)
        elif (
            self._expect_reject(login, answer, arrived_at, reject_at)
            and loop.time() < reject_at
            and len(self._held) < MAX_HELD
        ):
            self._held.add(key)
            loop.call_at(reject_at, self._let_go, key, login, answer)
        else:
            self._answer(key, login, answer)

    def _let_go(self, key: _LoginKey, login: Login, answer: VerificationResult) -> None:
        self._held.discard(key)
        self._answer(key, login, answer)

    def _answer(self, key: _LoginKey, login: Login, answer: VerificationResult) -> None:
        self.counters["accepts" if answer.verified else f"rejects_{answer.reason}"] += 1
        code = ACCESS_ACCEPT if answer.verified else ACCESS_REJECT
        packet = make_response_packet(login, code, encode_result(answer), self._secret)
        self._answered[key] = packet
        if len(self._answered) > KEPT_ANSWERS:
            self._answered.popitem(last=False)
        self._send(packet, key[0])

    def _send(self, packet: bytes, address: Address) -> None:
        if self._transport is not None:
            self._transport.sendto(packet, address)

    def error_received(self, exc: Exception) -> None:
        """Ignore errors while radiusd is replaced, because the senders repeat their requests."""
        self.counters["unsent"] += 1


def _fit_into_packet(answer: VerificationResult) -> VerificationResult:
    """Return the result, or a reject if the result does not fit into one packet."""
    try:
        encode_result(answer)
    except ResultTooLong:
        return VerificationResult(
            "too-many-groups",
            f"{len(answer.groups)} groups and {len(answer.attributes)} attributes are too long for one packet",
            source=answer.source,
        )
    return answer


async def listen(server: VerifierServer, sock: socket.socket) -> asyncio.DatagramTransport:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, sock=sock)
    return transport
