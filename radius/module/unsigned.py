"""Logs the source addresses of requests that radiusd drops because Message-Authenticator is missing.

radiusd calls this module for each dropped request (policy.d/admit_signed). The agent reads the log and raises an alarm.

During a flood of such requests, `FloodFilter` attaches a socket filter. Linux then drops Access-Requests without a
Message-Authenticator (socket(7), classic BPF).

After radiusd has read a request, radiusd keeps the request for `cleanup_delay`. A request that radiusd drops costs 9 kB
and 60 microseconds of CPU time (measured). The kernel keeps nothing, and 15,000 filtered requests a second cost radiusd
no CPU time.
"""

import ctypes
import ipaddress
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Mapping

from nac.kit import clock
from radius.module import radiusd_api as radiusd
from radius.module.cell import get_cell, log_exception
from radius.module.request import SLOT_PREFIX_LENGTH
from radius.module.udp_sockets import ListenerSockets

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_INSTRUCTION = struct.Struct("=HBBI")
# BPF_MAXINSNS and SKF_NET_OFF in linux/filter.h.
_MAX_INSTRUCTIONS = 4096
_IP_HEADER = 0x1_0000_0000 - 0x100000
_SOURCE_4, _SOURCE_6 = 12, 8
# Offsets from the UDP header, at which the filter of a UDP socket begins.
_CODE, _LENGTH, _ATTRIBUTES = 8, 10, 28
_ACCESS_REQUEST, _MESSAGE_AUTHENTICATOR = 1, 80
# radiusd itself drops packets with more attributes (max_attributes in radius/raddb/radiusd.conf).
_MAX_ATTRIBUTES = 200

# Instruction codes in linux/bpf_common.h.
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_BYTE_AT_X = 0x20, 0x28, 0x30, 0x50
_LOAD_X, _LOAD_KEPT, _KEEP, _ADD, _ADD_X, _TO_X = 0x01, 0x60, 0x02, 0x04, 0x0C, 0x07
_IF_EQUAL, _IF_AT_LEAST, _IF_ABOVE_X, _RETURN = 0x15, 0x35, 0x2D, 0x06
_WHOLE = 0xFFFFFFFF

Instruction = tuple[int, int, int, int]
_PASS: Instruction = (_RETURN, 0, 0, _WHOLE)
_DROP: Instruction = (_RETURN, 0, 0, 0)


class TooManyExempt(ValueError):
    """The list of exempt addresses is too long for a filter."""


def attach(listener: socket.socket, exempt: Iterable[str]) -> None:
    """Attach the filter to a socket. Requests from `exempt` addresses pass. Raises TooManyExempt or OSError."""
    instructions = build_program(listener.family == socket.AF_INET6, exempt)
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in instructions))
    fprog = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)


def detach(listener: socket.socket) -> None:
    listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def build_program(is_six: bool, exempt: Iterable[str]) -> list[Instruction]:
    """Instructions of the filter. Raises TooManyExempt."""
    made: list[Instruction] = [(_LOAD_BYTE, 0, 0, _CODE), (_IF_EQUAL, 1, 0, _ACCESS_REQUEST), _PASS]
    for text in exempt:
        address = ipaddress.ip_address(text)
        if (address.version == 6) == is_six:
            made += _pass_from_address(address.packed)
    # Use the length field of the RADIUS packet. Octets after this length are padding (RFC 2865 3).
    made += [(_LOAD_HALF, 0, 0, _LENGTH), (_ADD, 0, 0, _CODE), (_KEEP, 0, 0, 0), (_LOAD_X, 0, 0, _ATTRIBUTES)]
    # A load beyond the end of the datagram makes the kernel drop the datagram.
    for _ in range(_MAX_ATTRIBUTES):
        made += [
            *((_LOAD_KEPT, 0, 0, 0), (_IF_ABOVE_X, 1, 0, 0), _DROP),
            *((_LOAD_BYTE_AT_X, 0, 0, 0), (_IF_EQUAL, 0, 1, _MESSAGE_AUTHENTICATOR), _PASS),
            # The attribute's length is invalid: let radiusd drop the packet.
            *((_LOAD_BYTE_AT_X, 0, 0, 1), (_IF_AT_LEAST, 1, 0, 2), _PASS),
            *((_ADD_X, 0, 0, 0), (_TO_X, 0, 0, 0)),
        ]
    made.append(_PASS)
    if len(made) > _MAX_INSTRUCTIONS:
        raise TooManyExempt
    return made


def _pass_from_address(packed: bytes) -> list[Instruction]:
    """Instructions that pass requests from this address.

    For other addresses, the filter continues after these instructions.
    """
    at = _IP_HEADER + (_SOURCE_4 if len(packed) == 4 else _SOURCE_6)
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    made: list[Instruction] = []
    for place, word in enumerate(words):
        # Skip the comparison of the remaining words, and the `_PASS`.
        behind = 2 * (len(words) - place - 1) + 1
        made += [(_LOAD_WORD, 0, 0, at + 4 * place), (_IF_EQUAL, 0, behind, word)]
    return [*made, _PASS]


PERIOD_SECONDS = 60
# Limit of logged addresses of one slot in PERIOD_SECONDS. Attackers can forge addresses, and a flood must not fill
# memory or log.
MAX_SOURCES = 50
# Limit of unsigned requests of one slot in PERIOD_SECONDS. Above the limit, the kernel drops such requests.
MAX_REQUESTS = 200


class LoggedSources:
    """Addresses logged in the current period (PERIOD_SECONDS), by slot; at most MAX_SOURCES for each slot."""

    def __init__(self) -> None:
        self._period = 0
        self._logged: dict[int, set[str]] = {}

    def add(self, slot: int, source: str, now_seconds: int) -> bool:
        """Add an address. Returns whether the address must be logged now."""
        period = now_seconds // PERIOD_SECONDS
        if period != self._period:
            self._period = period
            self._logged.clear()
        logged = self._logged.setdefault(slot, set())
        if source in logged or len(logged) >= MAX_SOURCES:
            return False
        logged.add(source)
        return True


class FloodFilter:
    """Stops floods: after MAX_REQUESTS, the kernel drops a listener's unsigned requests until the period ends."""

    def __init__(self, listeners: ListenerSockets, exempt: Mapping[int, tuple[str, ...]]) -> None:
        """Create the filter.

        `exempt` contains the addresses that need not sign, by slot (port pair). A slot without an entry gets no filter.
        """
        self._listeners = listeners
        self._exempt = exempt
        self._period = 0
        self._requests: Counter[int] = Counter()
        self._filtered: set[socket.socket] = set()

    def count(self, slot: int, source: str, port: int, now_seconds: int) -> None:
        """Count a request. Raises OSError if the kernel rejects the filter."""
        self.lift(now_seconds)
        self._requests[slot] += 1
        if self._requests[slot] <= MAX_REQUESTS or slot not in self._exempt:
            return
        listener = self._listeners.get(source, port)
        if listener is None or listener in self._filtered:
            return
        try:
            attach(listener, self._exempt[slot])
        except TooManyExempt:
            return
        self._filtered.add(listener)

    def lift(self, now_seconds: int) -> None:
        period = now_seconds // PERIOD_SECONDS
        if period == self._period:
            return
        self._period = period
        self._requests.clear()
        while self._filtered:
            detach(self._filtered.pop())

    @property
    def is_up(self) -> bool:
        return bool(self._filtered)


_logged_sources = LoggedSources()
_flood_filter: FloodFilter | None = None


def instantiate(_: object) -> int:
    global _flood_filter
    settings = get_cell().settings
    _flood_filter = FloodFilter(ListenerSockets(settings), settings.exempt)
    return radiusd.OK


def authorize(pairs: radiusd.Pairs) -> radiusd.ModuleResult:
    try:
        values = dict(pairs)
        slot, source = int(values["Admit-Slot"][SLOT_PREFIX_LENGTH:]), values["Admit-Source"]
        log_unsigned(slot, source)
        if _flood_filter is not None:
            _flood_filter.count(slot, source, int(values["Admit-Port"]), clock.epoch_seconds())
    except Exception:  # house-rule: the edge of our code; the request is dropped anyway
        log_exception("unsigned")
    return radiusd.NOOP


def log_unsigned(slot: int, source: str) -> None:
    """Log the address at most once a minute."""
    if _logged_sources.add(slot, source, clock.epoch_seconds()):
        radiusd.log_error(f"admit: unsigned slot={slot} source={source}")


def lift_filters() -> None:
    """Remove filters of an earlier period.

    Call this function regularly, because radiusd does not notice requests that the kernel drops.
    """
    if _flood_filter is not None and _flood_filter.is_up:
        _flood_filter.lift(clock.epoch_seconds())
