"""Renders radiusd's configuration from `radius/raddb` and the slots (port pairs) of a cell."""

import ipaddress
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from nac.cellformat.methods import DEFAULT_TLS_VERSIONS
from nac.kit.listen_addresses import bound_addresses
from nac.kit.validation import RADIUS_SECRET
from radius.agent.radiusd.library_corrections import DISTRIBUTION_FOLDER, write_corrected_libraries
from radius.agent.radiusd.memory import MAX_SESSIONS
from radius.module.settings import UNSIGNED_SUFFIX, ModuleSettings

RADDB = Path(__file__).resolve().parents[2] / "raddb"
# Files with values of the cell. Files in templates/ are rendered once for each slot instead.
_RENDERED_FILES = ("radiusd.conf",)
# Seconds that radiusd waits for the verifier, and the maximum for proxy_dedup_window. The verifier's own limit is
# MAX_LOGIN_SECONDS (identity_sources/settings.py).
VERIFIER_WINDOW_SECONDS = 10
# The module looks up the secret of each source address. The result is valid for a second, the shortest time that
# radiusd allows.
_DYNAMIC_CLIENTS = "\t\tdynamic_clients = admit_secret\n\t\tlifetime = 1\n\t\trate_limit = no\n"
_LISTENER = re.compile(r"^\tlisten \{\n.*?^\t\}\n", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"@\{(\w+)\}")


class RenderError(Exception):
    """A value cannot be written into radiusd's configuration. The message names the value and the remedy."""


@dataclass(frozen=True)
class NasClient:
    """A NAS with its own secret or with an exemption from Message-Authenticator, identified by its address."""

    name: str
    address: str
    secret: str
    require_message_authenticator: bool


@dataclass(frozen=True)
class SlotConfig:
    number: int
    auth_port: int
    acct_port: int
    secret: str
    # PEM file with key, certificate and chain; a placeholder for a free slot.
    server_certificate: Path
    # Serial number (hex) of that certificate; "" for the placeholder.
    server_serial: str = ""
    nas_clients: Sequence[NasClient] = field(default=())
    # TLS versions, lowest first, named as in nac.cellformat.methods.
    tls_versions: Sequence[str] = DEFAULT_TLS_VERSIONS
    # Whether the module looks up two facts of each source address: its secret, and whether it must send
    # Message-Authenticator (radius/module/secret_lookup.py).
    uses_secret_lookup: bool = False


@dataclass(frozen=True)
class VerifierConfig:
    """Address of the verifier, the agent's process on loopback that checks slow passwords."""

    port: int
    secret: str


@dataclass(frozen=True)
class CellConfig:
    listen_address: str
    # Loopback port on which radiusd answers the agent's status requests.
    status_port: int
    status_secret: str
    reject_delay_seconds: float
    threads: int
    python_path: Sequence[Path]
    state_directory: Path
    tls_directory: Path
    cache_directory: Path
    module: ModuleSettings
    slots: Sequence[SlotConfig]
    verifier: VerifierConfig
    # Maximum of simultaneous EAP conversations in one slot.
    max_sessions: int = MAX_SESSIONS
    # Access-Requests per second of one slot; Accounting-Requests may be twice as many. radiusd drops packets above the
    # limit before a thread reads them. 0 for no limit.
    max_packets_per_second: int = 0


def render_configuration(config: CellConfig, target: Path) -> None:
    """Write a complete configuration directory that only this user can read. `target` must not exist."""
    target.mkdir(mode=0o700, parents=True)
    for entry in RADDB.iterdir():
        if entry.name in _RENDERED_FILES or entry.name in ("templates", "README.md"):
            continue
        (target / entry.name).symlink_to(entry)
    values = {
        "config_directory": str(target),
        "state_directory": str(config.state_directory),
        "library_path": f"{target / 'lib'}:{DISTRIBUTION_FOLDER}",
        "python_path": ":".join(str(path) for path in config.python_path),
        "reject_delay_seconds": str(config.reject_delay_seconds),
        "threads": str(config.threads),
        "status_port": str(config.status_port),
        "status_secret": config.status_secret,
        "verifier_port": str(config.verifier.port),
        "verifier_secret": _checked_secret(config.verifier.secret, "the verifier"),
        "verifier_window_seconds": str(VERIFIER_WINDOW_SECONDS),
    }
    for name in _RENDERED_FILES:
        _write(target / name, fill_placeholders((RADDB / name).read_text(), values))
    write_corrected_libraries(target / "lib")
    _write(target / "module.json", msgspec.json.encode(config.module).decode())
    (target / "slots").mkdir(mode=0o700)
    for template, name in (("eap", "eap"), ("slot", "servers"), ("end", "end")):
        text = (RADDB / "templates" / template).read_text()
        text = _with_listeners(text, bound_addresses(config.listen_address)[1:])
        _write(
            target / "slots" / name,
            "\n".join(fill_placeholders(text, _slot_values(config, slot)) for slot in config.slots),
        )


def _with_listeners(template: str, more: Sequence[str]) -> str:
    """Repeat each listener of a template for each further listening address in `more`."""

    def copies(match: re.Match[str]) -> str:
        placed = (
            fill_placeholders(match[0], _PartialValues(address_family=_address_keyword(each), listen_address=each))
            for each in more
        )
        return "\n".join((match[0], *placed))

    return _LISTENER.sub(copies, template)


class _PartialValues(dict[str, str]):
    """Values of a template. Names without a value stay placeholders."""

    def __missing__(self, name: str) -> str:
        return f"@{{{name}}}"


def _address_keyword(address: str) -> str:
    return "ipv6addr" if ":" in address else "ipaddr"


def fill_placeholders(template: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder `@{name}`. Raises KeyError for a name without a value."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _slot_values(config: CellConfig, slot: SlotConfig) -> dict[str, str]:
    name = f"slot-{slot.number}"
    return {
        "slot": str(slot.number),
        "secret": _checked_secret(slot.secret, f"slot {slot.number}"),
        "auth_port": str(slot.auth_port),
        "acct_port": str(slot.acct_port),
        "address_family": _address_keyword(config.listen_address),
        "listen_address": config.listen_address,
        "server_certificate": str(slot.server_certificate),
        "ca_directory": str(config.tls_directory / name / "ca"),
        "max_sessions": str(config.max_sessions),
        "packet_limit": _packet_limit(config.max_packets_per_second),
        # An Accounting-Request takes half the time of an Access-Request, so the limit is twice as high.
        "acct_packet_limit": _packet_limit(2 * config.max_packets_per_second),
        "tls_min_version": min(slot.tls_versions),
        "tls_max_version": max(slot.tls_versions),
        "cache_directory": str(config.cache_directory / name),
        "lookup": _DYNAMIC_CLIENTS if slot.uses_secret_lookup else "",
        "nas_clients": ""
        if slot.uses_secret_lookup
        else "".join(_nas_client(slot, number, client) for number, client in enumerate(slot.nas_clients)),
    }


def _packet_limit(max_packets_per_second: int) -> str:
    if not max_packets_per_second:
        return ""
    return f"\t\tlimit {{\n\t\t\tmax_pps = {max_packets_per_second}\n\t\t}}\n"


def _nas_client(slot: SlotConfig, number: int, client: NasClient) -> str:
    address = ipaddress.ip_address(client.address)
    exempt = "" if client.require_message_authenticator else UNSIGNED_SUFFIX
    return (
        f"\tclient {slot.number}_nas{number} {{\n"
        f"\t\t{_address_keyword(str(address))} = {address}\n"
        f'\t\tsecret = "{_checked_secret(client.secret, f"NAS {client.name!r}")}"\n'
        f"\t\tshortname = slot-{slot.number}{exempt}\n"
        "\t\trequire_message_authenticator = no\n"
        "\t\tlimit_proxy_state = no\n"
        "\t}\n"
    )


def _checked_secret(secret: str, where: str) -> str:
    if not RADIUS_SECRET.fullmatch(secret):
        raise RenderError(
            f"the secret of {where} must be 16 to 128 letters, digits or . _ : / + = @ ! # * , ; ? ~ ^ -; change it"
        )
    return secret


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def python_path() -> list[Path]:
    """Paths of this source tree and of its packages, for the Python interpreter in radiusd."""
    site_packages = (
        Path(sys.prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    return [RADDB.parent.parent, site_packages]


def delete_configuration(target: Path) -> None:
    shutil.rmtree(target)
