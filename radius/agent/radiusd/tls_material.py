"""Files of a tenant that radiusd reads besides its configuration: trusted authorities and the server certificate.

A running radiusd reads new files without a restart, so a new tenant needs no restart.

`CertificateReload` decides when radiusd restarts to load the server certificates of new tenants. If radiusd has not
loaded a certificate, radiusd reads the file at each handshake. Reading the file costs 1.1 ms, a third more than a
loaded certificate (`bench quick`, "new tenants"). A restart delays all tenants by 0.2 s. So radiusd restarts only for
several new tenants, in a quiet moment.
"""

import os
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nac.kit import clock
from pki.hash_directory import write_authorities
from radius.agent.paths import CellPaths


@dataclass(frozen=True)
class ServerCertificate:
    serial: str
    # PEM text: key, certificate and chain, in this order.
    pem: bytes


@dataclass(frozen=True)
class TenantMaterial:
    slot: int
    authorities: Sequence[bytes]
    # Serial number of the certificate to present; "" if none. The certificate is read only if its file is missing.
    server_serial: str
    read_server: Callable[[], ServerCertificate]


class TlsMaterialStore:
    def __init__(self, paths: CellPaths) -> None:
        self._paths = paths
        self._old_servers: set[Path] = set()

    def prepare_slot(self, slot: int) -> None:
        """Create the directories of a slot (port pair). radiusd needs these directories at its start.

        The directories of a free slot are empty.
        """
        self._paths.authorities(slot).mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._paths.sessions / f"slot-{slot}").mkdir(mode=0o700, parents=True, exist_ok=True)

    def place(self, material: TenantMaterial) -> None:
        """Update the files of a slot (port pair).

        Each file of the slot is replaced by rename, so radiusd never reads an incomplete file.
        """
        self.prepare_slot(material.slot)
        write_authorities(
            self._paths.authorities(material.slot),
            [x509.load_der_x509_certificate(der) for der in material.authorities],
        )
        if material.server_serial:
            path = self._paths.server_certificate(material.slot, material.server_serial)
            if path.is_symlink() or not path.exists():
                _write_secret_file(path, material.read_server().pem, check=_require_loadable)

    def clear(self, slot: int) -> None:
        """Empty a slot (port pair) without a tenant: delete trusted authorities, TLS sessions and keys."""
        self.prepare_slot(slot)
        write_authorities(self._paths.authorities(slot), [])
        for stale in (*self._paths.slot(slot).glob("server-*.pem"), *(self._paths.sessions / f"slot-{slot}").iterdir()):
            stale.unlink(missing_ok=True)

    def remove_old_server_keys(self, serials: Mapping[int, str]) -> None:
        """Remove keys of certificates that radiusd does not present any more.

        `serials` contains the serial number of the current certificate, by slot (port pair).

        Removes a key at the second call that finds the key unused. At the first call, radiusd may not know the new
        certificate yet.
        """
        old = {
            path
            for slot, serial in serials.items()
            for path in self._paths.slot(slot).glob("server-*.pem")
            if path != self._paths.server_certificate(slot, serial)
        }
        for path in old & self._old_servers:
            path.unlink(missing_ok=True)
        self._old_servers = old

    def ensure_placeholder(self) -> Path:
        """Create the certificate of free slots. radiusd needs a certificate for each slot (port pair) at its start.

        No device can see the certificate of a free slot.
        """
        path = self._paths.placeholder
        if not path.exists():
            _write_secret_file(path, _self_signed("admit free slot"))
        return path


@lru_cache(maxsize=256)
def key_algorithm(path: Path) -> str:
    """Object identifier of the kind of key in a PEM file. Raises OSError or ValueError."""
    return x509.load_pem_x509_certificate(path.read_bytes()).public_key_algorithm_oid.dotted_string


def _write_secret_file(path: Path, content: bytes, *, check: Callable[[Path], None] = lambda path: None) -> None:
    """Replace the file. If `check` raises, the old file stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        check(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _require_loadable(path: Path) -> None:
    """Raise ssl.SSLError if the certificate cannot be loaded.

    With such a certificate, radiusd would reject its whole configuration.
    """
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path, password="")


def _self_signed(common_name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = clock.utc_now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)


# Shortest wait: tenants often arrive in groups, and a new tenant has little load at first.
MIN_WAIT_SECONDS = 600.0
# Longest wait, for a cell that is never quiet.
MAX_WAIT_SECONDS = 24 * 3600.0
QUIET_SECONDS = 5.0
# Seconds between two checks for a quiet moment.
CHECK_INTERVAL_SECONDS = 60.0

SerialsBySlot = Mapping[int, str]


class CertificateReload:
    """Decides when radiusd restarts. `is_quiet(seconds)` waits for `seconds` and returns whether no request came."""

    def __init__(self, is_quiet: Callable[[float], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._since: float | None = None
        self._looked_at = float("-inf")
        # Certificates (slot, serial) for which radiusd was restarted already. If that restart did not load them,
        # another restart does not load them either.
        self._tried: frozenset[tuple[int, str]] = frozenset()

    def is_due(self, loaded: SerialsBySlot, live: SerialsBySlot, *, is_hidden: bool = False) -> bool:
        """Whether radiusd must restart now.

        `loaded` are the certificates that radiusd has loaded. `live` are the certificates that tenants present. Both
        arguments contain serial numbers by slot (port pair). `is_hidden` means that some devices cannot get a new
        certificate before the restart, so radiusd must restart without waiting.
        """
        waiting = frozenset((slot, serial) for slot, serial in live.items() if loaded.get(slot) != serial)
        if waiting <= self._tried:
            self._since = None
            return False
        if is_hidden:
            self._tried, self._since = waiting, None
            return True
        now = self._clock()
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited < MIN_WAIT_SECONDS or now < self._looked_at + CHECK_INTERVAL_SECONDS:
            return False
        self._looked_at = now
        if waited < MAX_WAIT_SECONDS and not self._is_quiet(QUIET_SECONDS):
            return False
        self._tried, self._since = waiting, None
        return True
