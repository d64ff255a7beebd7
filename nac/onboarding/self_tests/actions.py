"""Performs the checks of a self-test. Like a NAS, sends packets to the tenant's ports and receives the responses."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography import x509

from nac.cellformat import self_test_ticket
from nac.cellformat.self_test_ticket import LIFETIME_SECONDS, Ticket, encode_ticket
from nac.kit.mac import display_mac
from nac.kit.radius_packet import (
    ACCT_SESSION_ID,
    ACCT_STATUS_TYPE,
    CALLING_STATION_ID,
    CONNECT_INFO,
    NAS_IDENTIFIER,
    NAS_PORT_ID,
    NAS_PORT_TYPE,
    SERVICE_TYPE,
    USER_NAME,
)
from nac.onboarding.self_tests.board import Observation
from nac.onboarding.self_tests.radius_client import RadiusServer, encode_attributes
from nac.onboarding.self_tests.supplicant import DeviceIdentity, Supplicant, device_context, run_conversation

# Time to wait for a response, in addition to the server's reject delay.
PATIENCE_SECONDS = 8.0
# Time to wait in the check with a wrong secret. The cell must not respond. An incorrect response would arrive at once.
_SILENCE_SECONDS = 3.0
_ETHERNET, _CALL_CHECK, _FRAMED, _START = 15, 10, 2, 1


@dataclass(frozen=True, slots=True)
class RadiusTarget:
    host: str
    auth_port: int
    acct_port: int
    secret: bytes = field(repr=False)
    # The tenant's key, which the cell also has. It signs the tickets by which the cell recognises simulated devices.
    tenant_key: bytes = field(repr=False)
    reject_delay_seconds: float
    # Root authority and server name that the simulated device trusts.
    root: x509.Certificate
    server_name: str

    @property
    def patience_seconds(self) -> float:
        return self.reject_delay_seconds + PATIENCE_SECONDS

    def server(self, *, secret: bytes = b"", patience_seconds: float = 0) -> RadiusServer:
        return RadiusServer(
            self.host,
            self.auth_port,
            secret or self.secret,
            patience_seconds=patience_seconds or self.patience_seconds,
        )


@dataclass(frozen=True, slots=True)
class PlayedDevice:
    """A simulated device."""

    mac: str
    # Id of the check, which the log entry of the cell's decision contains.
    mark: str
    known: bool = False
    group: str = ""

    def pairs(self, tenant_key: bytes, now_seconds: int) -> dict[int, str | int]:
        ticket = Ticket(self.mac, self.mark, now_seconds + LIFETIME_SECONDS, self.known, self.group)
        return {
            CALLING_STATION_ID: display_mac(self.mac).upper().replace(":", "-"),
            NAS_IDENTIFIER: self_test_ticket.NAS_IDENTIFIER,
            NAS_PORT_TYPE: _ETHERNET,
            NAS_PORT_ID: encode_ticket(ticket, tenant_key),
            **({CONNECT_INFO: self.group} if self.group else {}),
        }


DeviceAction = Callable[[RadiusTarget, int], Observation]


def build_mab_action(device: PlayedDevice, *, secret: bytes = b"", tenant_key: bytes = b"") -> DeviceAction:
    """Return a function that sends a MAB login. Set `secret` or `tenant_key` to test a wrong value."""

    def act(target: RadiusTarget, now_seconds: int) -> Observation:
        pairs = device.pairs(tenant_key or target.tenant_key, now_seconds)
        pairs |= {USER_NAME: device.mac, SERVICE_TYPE: _CALL_CHECK}
        started = time.perf_counter()
        with target.server(secret=secret, patience_seconds=_SILENCE_SECONDS if secret else 0) as server:
            reply = server.request_access(encode_attributes(pairs), password=device.mac.encode())
        return Observation(reply, _milliseconds(started))

    return act


def build_eap_tls_action(device: PlayedDevice, identity: DeviceIdentity) -> DeviceAction:
    def act(target: RadiusTarget, now_seconds: int) -> Observation:
        context = device_context(identity, root=target.root, server_name=target.server_name)
        supplicant = Supplicant(context, identity.name, server_name=target.server_name)
        attributes = encode_attributes(
            device.pairs(target.tenant_key, now_seconds) | {USER_NAME: identity.name, SERVICE_TYPE: _FRAMED}
        )
        started = time.perf_counter()
        with target.server() as server:
            conversation = run_conversation(server, supplicant, attributes)
        return Observation(conversation.reply, _milliseconds(started), conversation.complaint)

    return act


def build_accounting_action(device: PlayedDevice) -> DeviceAction:
    def act(target: RadiusTarget, now_seconds: int) -> Observation:
        pairs = device.pairs(target.tenant_key, now_seconds) | {
            USER_NAME: device.mac,
            ACCT_STATUS_TYPE: _START,
            ACCT_SESSION_ID: device.mark,
        }
        started = time.perf_counter()
        with RadiusServer(
            target.host, target.acct_port, target.secret, patience_seconds=target.patience_seconds
        ) as server:
            reply = server.account(encode_attributes(pairs))
        return Observation(reply, _milliseconds(started))

    return act


def _milliseconds(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
