"""Requests of NASes as exchanges and sources: MAC authentication, passwords, Status-Server and accounting."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count, cycle
from typing import NamedTuple

from loadtest.radius_client import Request, Target, describe_unexpected_code
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import encode_attribute

_CALL_CHECK, _FRAMED_USER, _ETHERNET = 10, 2, 15
_RADIUS = 1
_USER_REQUEST = 1
START, STOP, INTERIM = 1, 2, 3
_STATUS_NAMES = {START: "start", STOP: "stop", INTERIM: "interim"}


class BenchNas(NamedTuple):
    """A switch. `attributes` returns the attributes that describe the switch in requests."""

    identifier: str = "bench-switch"
    address: str = "10.0.0.1"
    port: int = 50101

    def attributes(self) -> bytes:
        """Return 7 encoded attributes of the switch.

        Together with the device's attributes and Message-Authenticator, a request has 12 attributes.
        """
        return (
            encode_attribute(packet.FRAMED_MTU, 1500)
            + encode_attribute(packet.CALLED_STATION_ID, "00-1A-1E-00-00-01")
            + encode_attribute(packet.NAS_IP_ADDRESS, bytes(int(octet) for octet in self.address.split(".")))
            + encode_attribute(packet.NAS_IDENTIFIER, self.identifier)
            + encode_attribute(packet.NAS_PORT, self.port)
            + encode_attribute(packet.NAS_PORT_ID, f"GigabitEthernet1/0/{self.port % 100}")
            + encode_attribute(packet.NAS_PORT_TYPE, _ETHERNET)
        )


BENCH_NAS = BenchNas()


def calling_station(mac: str) -> bytes:
    """Return the Calling-Station-Id for a MAC address (12 hex digits), in the format of RFC 3580 3.21."""
    text = mac.upper()
    return encode_attribute(packet.CALLING_STATION_ID, "-".join(text[at : at + 2] for at in range(0, 12, 2)))


class PapRequest:
    """An Access-Request with a password.

    `vlan` is the expected VLAN in the Access-Accept: "" for no VLAN, None for any.
    """

    __slots__ = ("attributes", "expected", "kind", "password", "target", "vlan")
    code = packet.ACCESS_REQUEST

    def __init__(
        self,
        target: Target,
        user_name: str,
        password: str,
        attributes: bytes = b"",
        *,
        expected: int = packet.ACCESS_ACCEPT,
        vlan: str | None = None,
        kind: str = "pap",
    ) -> None:
        self.target = target
        self.attributes = encode_attribute(packet.USER_NAME, user_name) + attributes
        self.password = password.encode()
        self.expected = expected
        self.vlan = vlan
        self.kind = kind

    def first(self) -> Request:
        return Request(self.attributes, self.password)

    def receive(self, reply: bytes) -> Request | str:
        if reply[0] != self.expected:
            return describe_unexpected_code(reply, self.expected)
        if self.vlan is not None and packet.read_vlan(reply) != self.vlan:
            return f"VLAN {packet.read_vlan(reply)!r} instead of {self.vlan!r}"
        return ""


MAB_SERVICE = encode_attribute(packet.SERVICE_TYPE, _CALL_CHECK)


def mab_request(
    target: Target,
    mac: str,
    nas_attributes: bytes = b"",
    *,
    expected: int = packet.ACCESS_ACCEPT,
    vlan: str | None = None,
    kind: str = "mab",
) -> PapRequest:
    """Return a MAB request with the default format of switches: name and PAP password are the MAC (12 hex digits)."""
    attributes = MAB_SERVICE + calling_station(mac) + nas_attributes
    return PapRequest(target, mac, mac, attributes, expected=expected, vlan=vlan, kind=kind)


class StatusServer:
    """A Status-Server request (RFC 5997), which tests whether the server responds."""

    kind = "status-server"
    code = packet.STATUS_SERVER

    def __init__(self, target: Target) -> None:
        self.target = target

    def first(self) -> Request:
        return Request(b"")

    def receive(self, reply: bytes) -> Request | str:
        return "" if reply[0] == packet.ACCESS_ACCEPT else describe_unexpected_code(reply, packet.ACCESS_ACCEPT)


class BenchDevice(NamedTuple):
    """A device that a tenant knows: target, MAC address, expected VLAN and switch."""

    target: Target
    mac: str
    vlan: str | None
    nas: BenchNas = BENCH_NAS


def mab_source(devices: Sequence[BenchDevice], nas: BenchNas = BENCH_NAS) -> Callable[[], PapRequest]:
    """Return a source of MAB requests: one request of each device in turn, again and again."""
    nas_attributes = nas.attributes()
    turns = cycle(devices)

    def following() -> PapRequest:
        device = next(turns)
        return mab_request(device.target, device.mac, nas_attributes, vlan=device.vlan)

    return following


class AccountingRequest:
    """An Accounting-Request. The exchange calls `acknowledged` after a valid response."""

    __slots__ = ("_acknowledged", "attributes", "kind", "target")
    code = packet.ACCOUNTING_REQUEST

    def __init__(
        self,
        target: Target,
        status: int,
        session_id: str,
        attributes: bytes,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        self.target = target
        self.kind = f"acct-{_STATUS_NAMES.get(status, status)}"
        self.attributes = (
            encode_attribute(packet.ACCT_STATUS_TYPE, status)
            + encode_attribute(packet.ACCT_SESSION_ID, session_id)
            + attributes
        )
        self._acknowledged = acknowledged

    def first(self) -> Request:
        return Request(self.attributes)

    def receive(self, reply: bytes) -> Request | str:
        if reply[0] != packet.ACCOUNTING_RESPONSE:
            return describe_unexpected_code(reply, packet.ACCOUNTING_RESPONSE)
        if self._acknowledged is not None:
            self._acknowledged()
        return ""


class AcknowledgedRecord(NamedTuple):
    """A record that the server acknowledged.

    `session_seconds` (Acct-Session-Time) distinguishes the Interim-Updates of a session.
    """

    session_id: str
    status: int
    session_seconds: int


class AccountingSource:
    """Source of sessions: Start, Interim-Updates and Stop, with rising counters.

    A few hundred sessions are open at the same time, as at a real NAS.

    `acknowledged` lists each acknowledged record, which must be in the database exactly once. A record without a
    response is not in the list and ends its session, because the server may or may not have stored the record. After
    `close`, the source starts no session. When all open sessions have ended, the source returns None.
    """

    def __init__(
        self,
        devices: Sequence[BenchDevice],
        *,
        prefix: str,
        nas: BenchNas = BENCH_NAS,
        interims: int = 1,
        open_sessions: int = 500,
        interim_seconds: int = 600,
    ) -> None:
        """Create the source. `prefix` is the beginning of each Acct-Session-Id. Different prefixes make the ids of runs
        distinct.
        """
        self.acknowledged: list[AcknowledgedRecord] = []
        self._devices = cycle(devices)
        self._prefix = prefix
        self._nas_attributes = nas.attributes()
        self._interims = interims
        self._interim_seconds = interim_seconds
        self._open_sessions = open_sessions
        self._numbers = count()
        # Sessions whose last record was acknowledged, as (device, session id, number of records).
        self._open: deque[tuple[BenchDevice, str, int]] = deque()

    def close(self) -> None:
        self._open_sessions = -1

    def __call__(self) -> AccountingRequest | None:
        if self._open and len(self._open) > self._open_sessions:
            return self._record(*self._open.popleft())
        if self._open_sessions < 0:
            return None
        return self._record(next(self._devices), f"{self._prefix}-{next(self._numbers):07x}", 0)

    def _record(self, device: BenchDevice, session_id: str, records: int) -> AccountingRequest:
        status = START if records == 0 else STOP if records > self._interims else INTERIM
        seconds = records * self._interim_seconds
        attributes = (
            encode_attribute(packet.USER_NAME, device.mac)
            + calling_station(device.mac)
            + self._nas_attributes
            + encode_attribute(packet.SERVICE_TYPE, _FRAMED_USER)
            + encode_attribute(packet.FRAMED_IP_ADDRESS, b"\x0a\x14" + bytes.fromhex(device.mac)[-2:])
            + encode_attribute(packet.ACCT_AUTHENTIC, _RADIUS)
        )
        if status != START:
            # 5 GB per interval to the device, so that the first interval needs gigawords (RFC 2869 5.1, 5.2).
            gigawords, octets = divmod(records * 5_000_000_000, 1 << 32)
            attributes += (
                encode_attribute(packet.ACCT_SESSION_TIME, seconds)
                + encode_attribute(packet.ACCT_INPUT_OCTETS, records * 1_000_000)
                + encode_attribute(packet.ACCT_OUTPUT_OCTETS, octets)
                + encode_attribute(packet.ACCT_OUTPUT_GIGAWORDS, gigawords)
                + encode_attribute(packet.ACCT_INPUT_PACKETS, records * 1_000)
                + encode_attribute(packet.ACCT_OUTPUT_PACKETS, records * 4_000)
            )
        if status == STOP:
            attributes += encode_attribute(packet.ACCT_TERMINATE_CAUSE, _USER_REQUEST)

        def acknowledged() -> None:
            self.acknowledged.append(AcknowledgedRecord(session_id, status, seconds))
            if status != STOP:
                self._open.append((device, session_id, records + 1))

        return AccountingRequest(device.target, status, session_id, attributes, acknowledged=acknowledged)
