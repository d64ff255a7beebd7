"""The checks of a self-test, as our NAS carries them out: packets to the tenant's ports and what comes back."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from nac.mac import display_mac
from nac.self_tests.board import Seen
from nac.self_tests.supplicant import Identity, Supplicant, converse, device_context
from nac.self_tests.ticket import LIFE_SECONDS, NAS_IDENTIFIER, Ticket, port_of
from nac.self_tests.wire import Code, Kind, Pair, Server, pairs_of

# Beside the time for which the server holds a reject back.
PATIENCE_SECONDS = 8.0
# Whoever answers a wrong secret does so at once.
_SILENCE_SECONDS = 3.0
_ETHERNET, _CALL_CHECK, _FRAMED, _START = 15, 10, 2, 1


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    auth_port: int
    acct_port: int
    secret: bytes = field(repr=False)
    # Of the tenant, as the cell knows it: signs tickets.
    tenant_key: bytes = field(repr=False)
    reject_delay_seconds: float
    # What a device of the tenant is set up with.
    root: x509.Certificate
    server_name: str

    @property
    def patience_seconds(self) -> float:
        return self.reject_delay_seconds + PATIENCE_SECONDS

    def server(self, *, secret: bytes = b"", patience_seconds: float = 0) -> Server:
        return Server(
            self.host,
            self.auth_port,
            secret or self.secret,
            patience_seconds=patience_seconds or self.patience_seconds,
        )


@dataclass(frozen=True, slots=True)
class Device:
    """One that the self-test plays."""

    mac: str
    # Of the check.
    mark: str
    known: bool = False
    group: str = ""

    def pairs(self, tenant_key: bytes, now_seconds: int) -> dict[Kind, Any]:
        ticket = Ticket(self.mac, self.mark, now_seconds + LIFE_SECONDS, self.known, self.group)
        return {
            Kind.CALLING_STATION_ID: display_mac(self.mac).upper().replace(":", "-"),
            Kind.NAS_IDENTIFIER: NAS_IDENTIFIER,
            Kind.NAS_PORT_TYPE: _ETHERNET,
            Kind.NAS_PORT_ID: port_of(ticket, tenant_key),
            **({Kind.CONNECT_INFO: self.group} if self.group else {}),
        }


Act = Callable[[Target, int], Seen]


def by_mac(device: Device, *, secret: bytes = b"", tenant_key: bytes = b"") -> Act:
    """`secret` and `tenant_key` in place of the right ones."""

    def act(target: Target, now_seconds: int) -> Seen:
        pairs = device.pairs(tenant_key or target.tenant_key, now_seconds)
        pairs |= {Kind.USER_NAME: device.mac, Kind.SERVICE_TYPE: _CALL_CHECK}
        started = time.perf_counter()
        with target.server(secret=secret, patience_seconds=_SILENCE_SECONDS if secret else 0) as server:
            reply = server.ask(Code.ACCESS_REQUEST, pairs_of(pairs), password=device.mac.encode())
        return Seen(reply, _milliseconds(started))

    return act


def by_certificate(device: Device, identity: Identity) -> Act:
    def act(target: Target, now_seconds: int) -> Seen:
        context = device_context(identity, root=target.root, server_name=target.server_name)
        supplicant = Supplicant(context, identity.name, server_name=target.server_name)
        pairs: tuple[Pair, ...] = pairs_of(
            device.pairs(target.tenant_key, now_seconds) | {Kind.USER_NAME: identity.name, Kind.SERVICE_TYPE: _FRAMED}
        )
        started = time.perf_counter()
        with target.server() as server:
            told = converse(server, supplicant, pairs)
        return Seen(told.reply, _milliseconds(started), told.complaint)

    return act


def by_accounting(device: Device) -> Act:
    def act(target: Target, now_seconds: int) -> Seen:
        pairs = device.pairs(target.tenant_key, now_seconds) | {
            Kind.USER_NAME: device.mac,
            Kind.ACCT_STATUS_TYPE: _START,
            Kind.ACCT_SESSION_ID: device.mark,
        }
        started = time.perf_counter()
        with Server(target.host, target.acct_port, target.secret, patience_seconds=target.patience_seconds) as server:
            reply = server.ask(Code.ACCOUNTING_REQUEST, pairs_of(pairs))
        return Seen(reply, _milliseconds(started))

    return act


def _milliseconds(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
