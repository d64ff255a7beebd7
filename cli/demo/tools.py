"""Results of eapol_test (a supplicant) and radclient (a NAS), and one packet that neither tool can send."""

import ipaddress
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cli.demo.responses import Attributes, RadiusResponse, parse_eapol_output, parse_radclient_output
from nac.kit import radius_packet as packet
from nac.kit.errors import AdmitError
from nac.kit.request_sources import DEMO_ADDRESS

# Additional seconds after a tool's own timeout, because the tool may wait for a processor.
_GRACE_SECONDS = 5.0
_NAS_PORT_ID = 87

_ROUND = "CTRL-EVENT-EAP-STARTED"
_RESUMED = re.compile(r"Handshake finished - resumed=1$", re.MULTILINE)
_KEYS = re.compile(r"^MPPE keys OK: (\d+)  mismatch: (\d+)$", re.MULTILINE)
_ALERT = re.compile(r"^SSL: SSL3 alert: (read|write) \([^)]*\):(?:fatal|warning):(.+)$", re.MULTILINE)


class ToolFailed(AdmitError):
    """A test tool failed."""


@dataclass(frozen=True, slots=True)
class RadiusServer:
    """Address, ports and secret of a tenant's RADIUS server, for the configuration of a NAS."""

    host: str
    auth_port: int
    acct_port: int
    secret: str

    def at(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ipaddress.ip_address(self.host).version == 6 else f"{self.host}:{port}"


@dataclass(frozen=True, slots=True)
class EapolResult:
    """Result of one run of eapol_test, with an authentication and the requested re-authentications."""

    success: bool
    # Number of authentications in which the supplicant resumed its TLS session.
    resumed_count: int
    # Whether both sides derived the same keys in each authentication.
    mppe_ok: bool
    # Each Access-Accept and Access-Reject, in order.
    answers: tuple[RadiusResponse, ...]
    # Direction and TLS alert, such as "sent unknown CA" or "received certificate expired"; "" without an alert.
    alert: str
    seconds: float
    output: str

    @property
    def attributes(self) -> Attributes:
        """Return the attributes of the last response; () without a response."""
        return self.answers[-1].attributes if self.answers else ()

    @property
    def access_reject_has_eap_failure(self) -> bool:
        rejects = [answer for answer in self.answers if answer.code == "Access-Reject"]
        return bool(rejects) and all(answer.has_eap_failure for answer in rejects)


def tls_supplicant(
    *,
    identity: str,
    trusted: Path,
    certificate: Path,
    key: Path,
    server_name: str = "",
    versions: Sequence[Literal["1.0", "1.1", "1.2", "1.3"]] = ("1.2", "1.3"),
    ciphers: str = "",
) -> dict[str, str]:
    """Return the network settings of wpa_supplicant.conf(5) for EAP-TLS. `ciphers` has the format of OpenSSL."""
    disabled = " ".join(f"tls_disable_tlsv1_{minor}={int(f'1.{minor}' not in versions)}" for minor in range(4))
    network = {
        "key_mgmt": "WPA-EAP",
        "eap": "TLS",
        "identity": _quoted(identity),
        "ca_cert": _quoted(str(trusted)),
        "client_cert": _quoted(str(certificate)),
        "private_key": _quoted(str(key)),
        "phase1": _quoted(disabled),
    }
    if server_name:
        network["domain_match"] = _quoted(server_name)
    if ciphers:
        network["openssl_ciphers"] = _quoted(ciphers)
    return network


def md5_supplicant(mac: str) -> dict[str, str]:
    """Return the settings of a switch that sends MAC addresses by EAP-MD5, which derives no keys."""
    quoted = _quoted(mac)
    return {"key_mgmt": "IEEE8021X", "eap": "MD5", "eapol_flags": "0", "identity": quoted, "password": quoted}


def peap_supplicant(identity: str, password: str) -> dict[str, str]:
    """Return the default settings of a Windows laptop, which uses only PEAP."""
    return {
        "key_mgmt": "WPA-EAP",
        "eap": "PEAP",
        "identity": _quoted(identity),
        "password": _quoted(password),
        "phase2": _quoted("auth=MSCHAPV2"),
    }


def _quoted(text: str) -> str:
    if '"' in text or not text.isprintable():
        raise ValueError(f"wpa_supplicant.conf cannot hold {text!r}")
    return f'"{text}"'


def network_block(network: Mapping[str, str]) -> str:
    return "network={\n" + "".join(f"\t{name}={value}\n" for name, value in network.items()) + "}\n"


def run_eapol_test(
    server: RadiusServer,
    network: Mapping[str, str],
    *,
    mac: str,
    port_id: str,
    reauthentications: int = 0,
    timeout_seconds: int = 8,
) -> EapolResult:
    """Run eapol_test. `mac` is the Calling-Station-Id and `port_id` the NAS-Port-Id."""
    with tempfile.NamedTemporaryFile("w", prefix="admit-eapol-", suffix=".conf") as file:
        file.write(network_block(network))
        file.flush()
        command = ["eapol_test", "-c", file.name, "-a", server.host, "-p", str(server.auth_port), "-s", server.secret]
        command += ["-M", mac, "-N", f"{_NAS_PORT_ID}:s:{port_id}", "-r", str(reauthentications)]
        command += ["-t", str(timeout_seconds)]
        if network["eap"] == "MD5":
            command.append("-n")
        started = time.perf_counter()
        output = _run(command, seconds=timeout_seconds + _GRACE_SECONDS)
        return read_eapol_result(output, time.perf_counter() - started)


def read_eapol_result(output: str, seconds: float) -> EapolResult:
    keys = _KEYS.search(output)
    if keys is None:
        raise ToolFailed(f"eapol_test did not finish: {_tail(output)}", place="eapol_test")
    rounds = output.split(_ROUND)[1:]
    alert = _ALERT.search(output)
    return EapolResult(
        success=output.rstrip().endswith("SUCCESS"),
        resumed_count=sum(bool(_RESUMED.search(one)) for one in rounds),
        mppe_ok=int(keys[1]) == len(rounds) > 0 and keys[2] == "0",
        answers=parse_eapol_output(output),
        alert=f"{'received' if alert[1] == 'read' else 'sent'} {alert[2]}" if alert else "",
        seconds=seconds,
        output=output,
    )


def run_radclient(
    server: RadiusServer,
    kind: Literal["auth", "acct", "status"],
    attributes: Iterable[tuple[str, str]],
    *,
    port: int | None = None,
    timeout_seconds: int = 3,
) -> RadiusResponse | None:
    """Send one request and return the response; None without a response within twice the timeout.

    Values are text or numbers, as in the dictionary. All requests except accounting carry Message-Authenticator,
    because the authenticator of accounting is already a signature.
    """
    lines = [f"{name} = {_radclient_value(value)}\n" for name, value in attributes]
    if kind != "acct":
        lines.append("Message-Authenticator = 0x00\n")
    port = port or (server.acct_port if kind == "acct" else server.auth_port)
    # radclient 3.2.7 silently drops its last try when the next second begins. One more try prevents this, and radiusd
    # ignores the additional try as a duplicate. radclient rounds fractions of a second down.
    command = ["radclient", "-x", "-r", "2", "-t", str(timeout_seconds), server.at(port), kind, server.secret]
    started = time.perf_counter()
    output = _run(command, text="".join(lines), seconds=2 * timeout_seconds + _GRACE_SECONDS)
    answer = parse_radclient_output(output)
    if answer is None and time.perf_counter() - started < timeout_seconds:
        raise ToolFailed(_tail(output), place="radclient")
    return answer


def demo_source_attributes(server: RadiusServer) -> dict[str, str]:
    """Return the demo's source address as an attribute for radclient; {} if the server is not on loopback.

    For this address, the cell raises no alarm about wrong secrets.
    """
    address = ipaddress.ip_address(server.host)
    is_near = address.is_loopback and address.version == DEMO_ADDRESS.version
    return {"Packet-Src-IP-Address": str(DEMO_ADDRESS)} if is_near else {}


def _radclient_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def ask_without_message_authenticator(
    server: RadiusServer, *, user_name: str, password: str, port_id: str, timeout_seconds: float
) -> bool:
    """Whether a PAP request without Message-Authenticator gets a response. radclient cannot send such a request."""
    attributes = packet.encode_attribute(packet.USER_NAME, user_name) + packet.encode_attribute(_NAS_PORT_ID, port_id)
    authenticator, secret = os.urandom(16), server.secret.encode()
    signed = packet.make_access_request(os.urandom(1)[0], authenticator, attributes, secret, password.encode())
    # Message-Authenticator is first, with 18 octets (RFC 3579 3.2). The length follows code and identifier (RFC 2865
    # 3).
    request = signed[:2] + (len(signed) - 18).to_bytes(2) + signed[4:20] + signed[38:]
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(timeout_seconds)
        if own := demo_source_attributes(server):
            # For this source, the cell raises no alarm about requests without Message-Authenticator.
            sender.bind((own["Packet-Src-IP-Address"], 0))
        sender.connect((server.host, server.auth_port))
        sender.send(request)
        try:
            sender.recv(4096)
        except TimeoutError:
            return False
        except ConnectionRefusedError as exc:
            raise ToolFailed("No server listens on the port.", place=server.at(server.auth_port)) from exc
    return True


def run_openssl(*arguments: str) -> str:
    """Run openssl and return its output and errors. Ignores the exit status."""
    return _run(["openssl", *arguments], seconds=2 * _GRACE_SECONDS)


def _run(command: Sequence[str], *, seconds: float, text: str = "") -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError as exc:
        raise ToolFailed(
            f"{command[0]} is not installed.", remedy="Run ./admit up, which installs the program."
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise ToolFailed(f"Timed out after {seconds:g} s.", place=command[0]) from exc
    return done.stdout + done.stderr


def _tail(output: str) -> str:
    return " ".join(output.split())[-200:] or "no output"
