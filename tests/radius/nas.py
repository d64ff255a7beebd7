"""Packets of a NAS: sent by radclient, or built by hand where radclient is too strict."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.eap_tls_client import EapTls
from nac.kit import radius_packet as packet
from tests.radius import mschap
from tests.radius.standalone import LOOPBACK, journals
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PRINTER, Tenant

# Longest wait for a response on a busy machine, and the wait that proves silence.
PATIENCE_SECONDS = 5.0
SILENCE_SECONDS = 0.4
# Attribute numbers that the load generators do not use.
CHAP_PASSWORD, CHAP_CHALLENGE = 3, 60


@dataclass(frozen=True)
class Reply:
    """The output of radclient. The code "" means silence."""

    code: str
    # All attributes except Class, which identifies the decision.
    attributes: dict[str, str]
    output: str
    classes: tuple[str, ...] = ()


# On a busy machine, one of a thousand runs of radclient 3.2.7 ends with status 0 and no output. The test runs it again,
# and removes the journal records of the first run.
_TRIES = 3
_UNDER_WAY_SECONDS = 0.5


def radclient(
    tenant: Tenant, *lines: str, command: str = "auth", secret: str = "", silence: bool = False, port: int = 0
) -> Reply:
    """Send a request.

    `lines` are attributes in radclient's format. With `silence`, wait only briefly, for a late response.
    """
    number = port or (tenant.auth_port if command in ("auth", "status") else tenant.acct_port)
    patience = SILENCE_SECONDS if silence else PATIENCE_SECONDS
    options = ["-x", "-r", "1", "-t", str(patience)]
    words = ["radclient", *options, f"{LOOPBACK}:{number}", command, secret or tenant.secret]
    for _ in range(_TRIES):
        marks = [journal.mark() for journal in journals]
        done = subprocess.run(
            words, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60, check=False
        )
        received = re.search(r"^Received (\S+) Id .*\n((?:\t.*\n)*)", done.stdout, re.MULTILINE)
        if received is not None or done.returncode != 0:
            break
        # radclient may end before radiusd has answered.
        time.sleep(_UNDER_WAY_SECONDS)
        for journal, mark in zip(journals, marks, strict=True):
            journal.take_back(mark)
    if received is None:
        # Only a missing response is silence. Any other failure is an error of radclient itself.
        assert done.returncode == 1, done
        assert "No reply from server" in done.stdout, done
        return Reply("", {}, done.stdout)
    pairs = re.findall(r"^\t(\S+) = (.*)$", received[2], re.MULTILINE)
    attributes = {name: value.strip('"') for name, value in pairs if name != "Class"}
    return Reply(received[1], attributes, done.stdout, tuple(value for name, value in pairs if name == "Class"))


def plain_login(
    tenant: Tenant, method: str, name: str, password: str, *lines: str, station: str = "", spoken: str = ""
) -> Reply:
    """Log in without EAP, by default from a new station.

    An empty password of PAP is omitted. `spoken` is the name in the computation of MS-CHAPv2.
    """
    match method:
        case "pap":
            credentials = (f"User-Password={quoted(password)}",) if password else ()
        case "chap":
            credentials = (f"CHAP-Password={quoted(password)}",)
        case "mschapv2":
            credentials = mschap.attributes_v2(name, password, spoken=spoken)
    station_line = f'Calling-Station-Id="{station or new_mac()}"'
    return radclient(tenant, f"User-Name={quoted(name)}", *credentials, station_line, *lines)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Nas:
    """Sends datagrams from its own address."""

    tenant: Tenant
    address: str = LOOPBACK
    secret: str = ""

    @property
    def key(self) -> bytes:
        return (self.secret or self.tenant.secret).encode()

    def exchange(self, datagram: bytes, *, port: int = 0, seconds: float = PATIENCE_SECONDS) -> bytes | None:
        """The response without verification of its signatures. None means silence."""
        with self.socket(port) as asking:
            asking.settimeout(seconds)
            asking.send(datagram)
            try:
                return asking.recv(4096)
            except TimeoutError:
                return None

    def ask(
        self,
        attributes: bytes,
        *,
        password: bytes | None = None,
        code: int = packet.ACCESS_REQUEST,
        seconds: float = PATIENCE_SECONDS,
    ) -> bytes:
        """The verified response to a well-formed Access-Request."""
        identifier, authenticator = os.urandom(1)[0], os.urandom(16)
        request = packet.make_access_request(identifier, authenticator, attributes, self.key, password, code=code)
        reply = self.exchange(request, seconds=seconds)
        assert reply is not None, "no answer"
        packet.parse_response(reply, request, self.key)
        return reply

    def converse(self, conversation: EapTls, *, rounds: int = 50) -> str | None:
        """Run an EAP-TLS conversation. Returns its fault ("" for none), or None if it was abandoned after `rounds`."""
        turn = conversation.first()
        for _ in range(rounds):
            following = conversation.receive(self.ask(turn.attributes))
            if isinstance(following, str):
                return following
            turn = following
        return None

    def account(self, attributes: bytes, *, seconds: float = PATIENCE_SECONDS) -> bytes | None:
        request = packet.make_accounting_request(os.urandom(1)[0], attributes, self.key)
        reply = self.exchange(request, port=self.tenant.acct_port, seconds=seconds)
        if reply is not None:
            packet.parse_response(reply, request, self.key)
        return reply

    def socket(self, port: int = 0) -> socket.socket:
        is_six = ":" in self.address
        asking = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM)
        asking.bind((self.address, 0))
        asking.connect(("::1" if is_six else LOOPBACK, port or self.tenant.auth_port))
        return asking


def without_signature(signed: bytes) -> bytes:
    """The request as old switches send it.

    Message-Authenticator is its first attribute, of 18 octets (RFC 3579 3.2).
    """
    return signed[:2] + (len(signed) - 18).to_bytes(2) + signed[4:20] + signed[38:]


def mab(mac: str) -> tuple[bytes, bytes]:
    """Attributes and password of a MAC authentication by PAP."""
    return named(mac, mac, (packet.NAS_IDENTIFIER, "switch-1"), (packet.SERVICE_TYPE, 10)), mac.encode()


def ask_mab(tenant: Tenant, mac: str = PRINTER) -> int:
    """The code of the response to a MAC authentication."""
    attributes, password = mab(mac)
    return Nas(tenant).ask(attributes, password=password)[0]


def log_in(
    tenant: Tenant,
    name: str | bytes,
    password: str,
    *more: tuple[int, bytes | str | int],
    station: str | None = "",
    seconds: float = PATIENCE_SECONDS,
) -> int:
    """The code of the response to a login by PAP, by default from a new station. With None, the station is omitted."""
    attributes = named(name, new_mac() if station == "" else station or "", *more)
    return Nas(tenant).ask(attributes, password=password.encode(), seconds=seconds)[0]


def named(name: str | bytes, station: str | bytes = "", *more: tuple[int, bytes | str | int]) -> bytes:
    """User-Name, Calling-Station-Id (unless it is empty), and more attributes."""
    return joined([(packet.USER_NAME, name), *([(packet.CALLING_STATION_ID, station)] if station else ()), *more])


def joined(attributes: Iterable[tuple[int, bytes | str | int]]) -> bytes:
    return b"".join(packet.encode_attribute(number, value) for number, value in attributes)
