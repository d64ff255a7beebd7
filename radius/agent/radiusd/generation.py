"""Generations of radiusd's configuration.

The agent renders and checks each generation, stores it for a rollback, and deletes the generation when two newer
generations exist.
"""

import hashlib
import hmac
import logging
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import msgspec

from nac.kit.listen_addresses import bind_socket, bound_addresses
from nac.kit.settings import Settings
from radius.agent.paths import CellPaths
from radius.agent.radiusd import memory, process
from radius.agent.radiusd.configuration import (
    CellConfig,
    RenderError,
    SlotConfig,
    VerifierConfig,
    python_path,
    render_configuration,
)
from radius.agent.radiusd.configuration_source import SlotRow
from radius.agent.radiusd.tls_material import key_algorithm
from radius.module.settings import ModuleSettings

log = logging.getLogger(__name__)

KEPT_GENERATIONS = 2
_FACTS_FILE = "generation.json"


class ProbeTarget(msgspec.Struct, frozen=True):
    """Port and secret with which the agent sends probes to radiusd."""

    port: int
    secret: str


class GenerationFacts(msgspec.Struct, frozen=True):
    """Description of a generation, stored with the files of the generation."""

    # Hash of everything that takes effect only by a restart.
    fingerprint: str
    listen_address: str
    status: ProbeTarget
    endpoints: tuple[ProbeTarget, ...]
    ports: tuple[int, ...]
    # Serial number (hex) of the server certificate that radiusd has loaded, by slot.
    baked: dict[int, str] = {}
    # Kind of key of the loaded certificate or placeholder, by slot.
    kinds: dict[int, str] = {}
    # Slots whose secrets the module looks up. Such secrets can change without a restart of radiusd.
    looked_up: tuple[int, ...] = ()


@dataclass(frozen=True)
class Generation:
    directory: Path
    facts: GenerationFacts


class PortTaken(Exception):
    """Another process uses a port of the cell."""


class Generations:
    def __init__(self, settings: Settings, paths: CellPaths) -> None:
        self._settings = settings
        self._paths = paths
        self._max_sessions = memory.max_sessions(memory.limit_bytes(settings), settings.cell_slots)

    def is_in_force(self, facts: GenerationFacts, slots: Sequence[SlotRow]) -> bool:
        """Whether a radiusd that runs this generation can serve the slots (port pairs) in `slots` without a restart.

        radiusd may continue to look up the secrets of a slot until the next restart, although the slot no longer needs
        lookups.
        """
        needed = {slot.number for slot in slots if slot.uses_secret_lookup}
        return needed <= set(facts.looked_up) and facts.fingerprint == self.fingerprint(slots, facts.looked_up)

    def fingerprint(self, slots: Sequence[SlotRow], looked_up: Collection[int]) -> str:
        """Hash of all settings that take effect only by a restart. Excludes certificates, which need no restart."""
        settings = self._settings
        restart_relevant = [
            settings.listen_address,
            settings.reject_delay_seconds,
            settings.cell_tenant_packets_per_second,
            settings.journal_max_bytes,
            settings.journal_sync,
            # Excludes settings that are derived from the machine's memory. Such settings may differ between processes,
            # and can wait for the next restart.
            settings.cell_memory_bytes,
            # After an upgrade, the running radiusd has the old module and writes journal records of the old format.
            running_version(),
            [
                [
                    slot.number,
                    slot.auth_port,
                    slot.acct_port,
                    *_configured_secrets(slot, slot.number in looked_up),
                    slot.tls_versions,
                    slot.trust_generation,
                ]
                for slot in slots
            ],
        ]
        return hashlib.sha256(msgspec.json.encode(restart_relevant)).hexdigest()

    def make(self, slots: Sequence[SlotRow], serials: Mapping[int, str], *, status_port: int) -> Generation:
        """Render a new generation.

        `serials` contains the serial number of the certificate to load, by slot (port pair). Raises RenderError.
        """
        rendered = []
        baked: dict[int, str] = {}
        kinds: dict[int, str] = {}
        for slot in slots:
            serial, path, kinds[slot.number] = self._certificate(slot.number, serials.get(slot.number, ""))
            if serial:
                baked[slot.number] = serial
            rendered.append(
                SlotConfig(
                    slot.number,
                    slot.auth_port,
                    slot.acct_port,
                    slot.secret,
                    path,
                    serial,
                    slot.nas_clients,
                    slot.tls_versions,
                    slot.uses_secret_lookup,
                )
            )
        looked_up = tuple(slot.number for slot in slots if slot.uses_secret_lookup)
        ports = tuple(port for slot in slots for port in (slot.auth_port, slot.acct_port))
        exempt = {
            slot.number: tuple(nas.address for nas in slot.nas_clients if not nas.require_message_authenticator)
            for slot in slots
            if not slot.uses_secret_lookup
        }
        probe_secret = secrets.token_urlsafe(24)
        status = ProbeTarget(status_port, secrets.token_urlsafe(24))
        config = CellConfig(
            listen_address=self._settings.listen_address,
            status_port=status.port,
            status_secret=status.secret,
            reject_delay_seconds=self._settings.reject_delay_seconds,
            threads=os.cpu_count() or 1,
            python_path=python_path(),
            state_directory=self._paths.state,
            tls_directory=self._paths.tls,
            cache_directory=self._paths.sessions,
            module=msgspec.structs.replace(
                self._module(baked, self._paths.journal, probe_secret),
                ports=(status.port, *ports),
                status_port=status.port,
                status_secret=status.secret,
                max_conversations=self._max_sessions,
                exempt=exempt,
            ),
            slots=rendered,
            verifier=VerifierConfig(self._settings.verifier_port, verifier_secret(self._paths)),
            max_sessions=self._max_sessions,
            max_packets_per_second=self._settings.cell_tenant_packets_per_second,
        )
        facts = GenerationFacts(
            self.fingerprint(slots, looked_up),
            self._settings.listen_address,
            status,
            tuple(
                ProbeTarget(slot.auth_port, probe_secret if slot.uses_secret_lookup else slot.secret) for slot in slots
            ),
            ports,
            baked,
            kinds,
            looked_up,
        )
        return self._write(config, facts)

    def _certificate(self, slot: int, serial: str) -> tuple[str, Path, str]:
        """Serial number, file and kind of key of the certificate for a slot (port pair).

        If the tenant's certificate is missing or damaged, uses the placeholder certificate with serial "". Raises
        RenderError if the placeholder is damaged, too.
        """
        path = self._paths.server_certificate(slot, serial)
        if serial and path.is_file() and not path.is_symlink():
            try:
                return serial, path, key_algorithm(path)
            except ValueError as exc:
                log.error("%s is damaged and is left out: %s", path, exc)
        placeholder = self._paths.placeholder
        try:
            return "", placeholder, key_algorithm(placeholder)
        except ValueError as exc:
            raise RenderError(f"{placeholder} is damaged: {exc}") from exc

    def create_checked(self, slots: Sequence[SlotRow], serials: Mapping[int, str], *, status_port: int) -> Generation:
        """Render a new generation with the same arguments as `make`, and check it with radiusd.

        If radiusd rejects the generation, deletes it and raises RadiusdError.
        """
        generation = self.make(slots, serials, status_port=status_port)
        try:
            process.check_configuration(generation.directory)
        except process.RadiusdError:
            self.discard(generation)
            raise
        return generation

    def create_shadow(self, slots: Sequence[SlotRow], serials: Mapping[int, str]) -> Generation:
        """Render the configuration for a test radiusd on free loopback ports. The journal of this radiusd is not
        shipped.
        """
        settings = replace(self._settings, listen_address="127.0.0.1")
        status_port, *ports = free_ports("127.0.0.1", 1 + 2 * len(slots))
        moved = [slot.with_ports(ports[2 * place], ports[2 * place + 1]) for place, slot in enumerate(slots)]
        shadow_paths = CellPaths(self._paths.shadow)
        shutil.rmtree(shadow_paths.root, ignore_errors=True)
        shadow_paths.root.mkdir(mode=0o700)
        generations = _ShadowGenerations(settings, self._paths, shadow_paths)
        return generations.make(moved, serials, status_port=status_port)

    def _module(self, baked: dict[int, str], journal: Path, probe_secret: str) -> ModuleSettings:
        return ModuleSettings(
            replica_directory=str(self._paths.replica),
            journal_directory=str(journal),
            tls_directory=str(self._paths.tls),
            journal_max_bytes=self._settings.journal_max_bytes,
            journal_sync="always" if self._settings.journal_sync == "always" else "interval",
            baked_certificates=baked,
            cell_key_file=str(self._paths.key),
            claims_directory=str(self._paths.claims),
            trusted_stations_file=str(self._paths.trusted_stations),
            probe_secret=probe_secret,
        )

    def _write(self, config: CellConfig, facts: GenerationFacts) -> Generation:
        numbers = [int(path.name) for path in self._paths.generations.iterdir() if path.name.isdigit()]
        directory = self._paths.generations / f"{max(numbers, default=0) + 1:06d}"
        try:
            render_configuration(config, directory)
        except (RenderError, OSError):
            shutil.rmtree(directory, ignore_errors=True)
            raise
        # Written last: a directory without this file is incomplete and is ignored.
        (directory / _FACTS_FILE).write_bytes(msgspec.json.encode(facts))
        return Generation(directory, facts)

    def complete(self, generation: Generation) -> None:
        """Replace missing server keys with the placeholder certificate, so that radiusd can start with this generation.

        A key is missing if the tenant of the slot (port pair) has left or has another certificate. The module selects
        the certificate to present, so no device sees the placeholder.
        """
        settings = msgspec.json.decode((generation.directory / "module.json").read_bytes(), type=ModuleSettings)
        for slot, serial in settings.baked_certificates.items():
            path = self._paths.server_certificate(slot, serial)
            if not path.exists():
                path.unlink(missing_ok=True)
                path.symlink_to(self._paths.placeholder)

    def hides_certificate(self, generation: Generation, serials: Mapping[int, str]) -> bool:
        """Whether some devices cannot get one of the certificates in `serials` (by slot) from a radiusd with this
        generation.

        For each kind of key, OpenSSL has one certificate: the loaded certificate, or the certificate that the module
        set for the session. OpenSSL presents the certificate whose signature algorithm the device prefers. So a device
        may get the loaded certificate instead of the tenant's new certificate.
        """
        return any(
            serial and generation.facts.baked.get(slot) != serial and self._is_hidden(generation.facts, slot, serial)
            for slot, serial in serials.items()
        )

    def _is_hidden(self, facts: GenerationFacts, slot: int, serial: str) -> bool:
        loaded = facts.kinds.get(slot)
        try:
            if slot in facts.baked and self._paths.server_certificate(slot, facts.baked[slot]).is_symlink():
                loaded = key_algorithm(self._paths.placeholder)
            return loaded is not None and loaded != key_algorithm(self._paths.server_certificate(slot, serial))
        except (OSError, ValueError):
            return False

    def newest(self) -> Generation | None:
        """The newest complete generation. If PostgreSQL does not respond, a cell starts with the newest generation."""
        for directory in sorted(self._paths.generations.iterdir(), reverse=True):
            generation = self.read(directory)
            if generation is not None:
                return generation
        return None

    @staticmethod
    def read(directory: Path) -> Generation | None:
        try:
            return Generation(
                directory, msgspec.json.decode((directory / _FACTS_FILE).read_bytes(), type=GenerationFacts)
            )
        except (OSError, msgspec.DecodeError):
            return None

    def remove_old(self, in_use: Path) -> None:
        directories = sorted((path for path in self._paths.generations.iterdir() if path != in_use), reverse=True)
        for directory in directories[KEPT_GENERATIONS - 1 :]:
            shutil.rmtree(directory)

    @staticmethod
    def discard(generation: Generation) -> None:
        shutil.rmtree(generation.directory, ignore_errors=True)


class _ShadowGenerations(Generations):
    """Writes generations to the shadow directory, with the cell's own replica and certificates."""

    def __init__(self, settings: Settings, cell: CellPaths, shadow: CellPaths) -> None:
        super().__init__(settings, cell)
        self._shadow = shadow

    def _module(self, baked: dict[int, str], journal: Path, probe_secret: str) -> ModuleSettings:
        return super()._module(baked, self._shadow.journal, probe_secret)

    def _write(self, config: CellConfig, facts: GenerationFacts) -> Generation:
        directory = self._shadow.generations / "000001"
        self._shadow.state.mkdir(mode=0o700)
        render_configuration(replace(config, state_directory=self._shadow.state), directory)
        return Generation(directory, facts)


def _configured_secrets(slot: SlotRow, looked_up: bool) -> list[object]:
    """Secrets of a slot (port pair) that radiusd reads only at its start.

    A slot whose tenant has left gets a new secret.
    """
    if looked_up and slot.status == "assigned":
        return ["looked up"]
    clients = [[nas.address, nas.secret, nas.require_message_authenticator] for nas in slot.nas_clients]
    return [slot.secret, clients]


def verifier_secret(paths: CellPaths) -> str:
    """Secret that radiusd and the verifier share.

    The secret never changes, because radiusd keeps running when a new agent starts.
    """
    return hmac.digest(paths.key.read_bytes().strip(), b"admit verifier 1", "sha256").hex()


def free_ports(address: str, count: int) -> list[int]:
    """Return different free UDP ports, chosen by the kernel."""
    first, *others = bound_addresses(address)
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            port = held.enter_context(bind_socket(first, 0, socket.SOCK_DGRAM)).getsockname()[1]
            # Keep each port bound until all are chosen, so that the kernel returns no port twice.
            with suppress(OSError):
                for other in others:
                    held.enter_context(bind_socket(other, port, socket.SOCK_DGRAM))
                ports.append(port)
    return ports


def require_free_ports(facts: GenerationFacts) -> None:
    """Raise PortTaken if a port of the generation is in use.

    `radiusd -C` does not bind ports. If only one port is in use, radiusd does not start, and no tenant is served.
    """
    places = product(bound_addresses(facts.listen_address), facts.ports)
    for address, port in [*places, ("127.0.0.1", facts.status.port)]:
        try:
            bind_socket(address, port, socket.SOCK_DGRAM).close()
        except OSError as exc:
            raise PortTaken(
                f"UDP port {port} of {address} is in use ({exc.strerror}). Free this port, or choose other ports"
                " (ADMIT_CELL_FIRST_PORT)"
            ) from exc


CHECKOUT = Path(__file__).resolve().parents[3]
# Folders that radiusd reads, or from which its interpreter may import modules.
_LOADED_FOLDERS = ("radius/raddb", "radius/module", "nac", "pki")


@cache
def running_version() -> str:
    """Version of the source tree when this process first called the function."""
    return checkout_version(CHECKOUT)


def checkout_version(checkout: Path) -> str:
    """Hash of all files that radiusd may have read, and of the Python interpreter's version."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in _LOADED_FOLDERS:
        for path in sorted((checkout / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"\n{path.relative_to(checkout)} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()
