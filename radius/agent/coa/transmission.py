"""State of one request to a NAS. The steps are those of the vendor's recipe (sequence of CoA requests)."""

import ipaddress
import random
import socket
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nac.engine.dictionary import Dictionary
from nac.engine.vendors import find_vendor
from nac.engine.vendors.recipes import Setback
from nac.kit.outbound.reach import PLATFORM_REMEDY, OutboundReach
from nac.models.coa_request import CoaState
from nac.sessions.coa_requests.error_causes import SESSION_NOT_FOUND, explain_error_cause
from radius.agent.coa.packet import CoaResponse, SessionIdentifiers, encode_request_attributes, make_request_packet
from radius.agent.coa.queue import ClaimedRequest, CoaResult, SendRecord

_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))


@dataclass(frozen=True, slots=True)
class Pacing:
    """Retransmission times (IRT, MRT) and count (MRC) of RFC 5080 2.2.1, and the packets per second to a NAS."""

    first_seconds: float = 2.0
    longest_seconds: float = 16.0
    packets: int = 3
    per_second: float = 10.0


class CoaPeer(NamedTuple):
    """Destination of a request. Admit accepts the response only from this destination."""

    family: socket.AddressFamily
    host: str
    port: int


class CannotSend(Exception):
    """The request cannot be sent. The message is a sentence for people."""


@dataclass(slots=True)
class CoaTransmission:
    taken: ClaimedRequest
    step: int
    # Time of the next packet, or of the timeout, on the monotonic clock.
    due: float
    peer: CoaPeer
    identifier: int = 0
    packet: bytes = b""
    # Number of packets sent in this step.
    sent: int = 0
    timeout: float = 0.0
    # Number of invalid responses by fault; and the error if a packet could not be sent.
    ignored: Counter[str] = field(default_factory=Counter)
    trouble: str = ""
    # Whether no more packets are sent. The NAS may still respond to earlier packets.
    is_withdrawn: bool = False

    @property
    def key(self) -> tuple[str, int, int]:
        return self.peer.host, self.peer.port, self.identifier

    def make_packet(self, dictionary: Dictionary, identifier: int, *, at: int) -> None:
        """Create the packet of the current step; repetitions are identical (RFC 5176 2.3). Raises CannotSend."""
        row, recipe = self.taken.row, find_vendor(self.taken.row.vendor).recipe
        step = recipe.steps[row.kind][self.step]
        facts = SessionIdentifiers(row.session_id, row.mac, row.identity, row.nas_port, row.framed_ip, row.nas_key)
        try:
            changes = [(each["attribute"], each["value"], each.get("tag")) for each in row.attributes]
            attributes = encode_request_attributes(dictionary, recipe, step, facts, changes)
            self.packet = make_request_packet(step, identifier, attributes, at=at, secret=self.taken.secret)
        except (ValueError, LookupError, TypeError) as exc:
            raise CannotSend(f"The request cannot be encoded: {exc}") from exc
        self.identifier = identifier

    def withdraw(self, now: float, pacing: Pacing) -> None:
        self.is_withdrawn, self.due = True, now + pacing.longest_seconds

    def is_exhausted(self, pacing: Pacing) -> bool:
        return self.is_withdrawn or self.sent >= pacing.packets

    def record_sent(self, now: float, pacing: Pacing) -> None:
        """Count a sent packet, and double the pause until the next packet, plus or minus a tenth.

        RFC 3315 14 defines these pauses, and RFC 5080 2.2.1 refers to that section.
        """
        stretched = 2 * self.timeout if self.sent else pacing.first_seconds
        self.timeout = min(stretched, pacing.longest_seconds) * (1 + random.uniform(-0.1, 0.1))  # noqa: S311
        self.sent += 1
        self.due = now + self.timeout

    def go_on(self, setback: Setback, error_cause: int, now: float) -> bool:
        """If the NAS refused or did not respond (`setback`), continue with the next step of the vendor's recipe.

        Returns False if no further step follows: the recipe has no next step for this setback, the NAS does not know
        the session, or the request was withdrawn.
        """
        steps = find_vendor(self.taken.row.vendor).recipe.steps[self.taken.row.kind]
        if self.is_withdrawn or setback not in steps[self.step].next_on or error_cause == SESSION_NOT_FOUND:
            return False
        self.step, self.sent, self.packet, self.due = self.step + 1, 0, b"", now
        return True

    def sending(self) -> SendRecord:
        return SendRecord(self.taken.row.id, self.taken.row.takings, self.step)

    def answered(self, answer: CoaResponse) -> CoaResult:
        if answer.accepted:
            detail = f"Step {self.step + 1} of the vendor's recipe succeeded." if self.step else ""
            return self._ending("acknowledged", detail, answer)
        return self._ending(
            "refused", f"The NAS rejected the request. {explain_error_cause(answer.error_cause)}", answer
        )

    def unanswered(self) -> CoaResult:
        where = f"{self.peer.host}, port {self.peer.port}"
        if self.trouble:
            return self._ending("unreachable", f"No route to {where}: {self.trouble}.")
        if self.ignored["unsigned"]:
            why = (
                "The NAS responded without a Message-Authenticator, which Admit requires from this NAS. Turn off "
                "signs_coa_answers of the NAS, or update the software of the NAS."
            )
        elif self.ignored["forged"]:
            why = "The NAS signed its responses with a wrong secret. Enter the secret of Admit in the NAS."
        else:
            why = (
                "Turn on dynamic authorization (RFC 5176) of the NAS for the cell's address, with the NAS's secret. "
                "Check that no firewall blocks the requests. If the NAS is behind NAT, set behind_nat of the NAS."
            )
        return self._ending("unanswered", f"No answer from {where} to {self.sent} packets. {why}")

    def cannot(self, why: str) -> CoaResult:
        return self._ending("unreachable", why)

    def _ending(self, state: CoaState, detail: str, answer: CoaResponse | None = None) -> CoaResult:
        return make_result(self.taken, self.step, state, detail, answer)


def make_result(
    taken: ClaimedRequest, step: int, state: CoaState, detail: str, answer: CoaResponse | None = None
) -> CoaResult:
    cause = answer.error_cause if answer else 0
    return CoaResult(
        taken.row.id, taken.row.takings, step, state, answer.code if answer else None, cause or None, detail
    )


def nas_reach(listen_address: str, reach: OutboundReach) -> OutboundReach:
    """Networks that may contain a cell's NASes. Includes loopback if the cell listens on loopback."""
    if not ipaddress.ip_address(listen_address).is_loopback:
        return reach
    return replace(reach, allowed=(*reach.allowed, *_LOOPBACK))


def find_peer(taken: ClaimedRequest, families: frozenset[socket.AddressFamily], reach: OutboundReach) -> CoaPeer:
    """Address and port of the request's NAS.

    `families` are the cell's own address families. `reach` limits the addresses, because tenants choose the addresses
    of their NASes. Raises CannotSend.
    """
    row = taken.row
    if row.behind_nat:
        raise CannotSend(
            "The NAS is behind NAT and not reachable over UDP. The sessions of the NAS end automatically if the tenant"
            " has a Session-Timeout for such NASes (nat_session_seconds)."
        )
    if not row.address:
        raise CannotSend("The address of the NAS is unknown. Register the NAS with its address.")
    address = ipaddress.ip_address(row.address)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    if address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        raise CannotSend(f"{address} cannot be the address of a NAS. Register the NAS with its own address.")
    if family not in families:
        raise CannotSend(f"This cell has no IPv{address.version} address, so it cannot send to {address}.")
    if why := reach.why_not(str(address)):
        raise CannotSend(f"{why}. {PLATFORM_REMEDY}")
    if not taken.secret:
        raise CannotSend("The secret of the NAS cannot be decrypted, because it was encrypted with another master key.")
    return CoaPeer(family, str(address), find_vendor(row.vendor).recipe.port)
