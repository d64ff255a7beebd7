"""Creates the default server certificate of the enrolment port, from a local authority.

Devices must trust `enrolment-ca.pem`. The server process renews the certificate a month before the certificate expires.
`./admit up` renews the certificate when the addresses change. A renewal does not change the authority.
"""

import ipaddress
import logging
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from nac.certificates.expiry import EXPIRY_WINDOW_DAYS
from nac.kit.clock import utc_now
from nac.kit.private_files import FileOwner, write_private
from nac.kit.settings import Settings
from pki.bundles import certificates_pem
from pki.errors import PkiError
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key, is_same_public_key, key_pem, load_key
from pki.names import San, build_san, read_sans, subject_name
from pki.profiles import PROFILES, parse_profiles
from pki.serials import random_serial

_log = logging.getLogger("admit.enrolment")
RENEWAL_LEAD = timedelta(days=30)
_CHECK_INTERVAL_SECONDS = 3600.0
# Apple rejects TLS server certificates with a longer validity (support article HT211025).
_PROFILE = parse_profiles(
    {
        "enrolment-server": {
            "validity_days": 397,
            "key_usage": ["digital-signature"],
            "extended_key_usage": ["server-auth"],
            "allowed_names": ["dns", "ip"],
        }
    }
)["enrolment-server"]


def authority_path(folder: Path) -> Path:
    return folder / "enrolment-ca.pem"


class CertificateMaintainer:
    """Renews the default certificate while the server runs, and warns before any certificate expires."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._folder = settings.enrolment_dir
        self._clock = clock
        self._next = clock()
        # Expiry of the certificate and remaining days at the last warning, so that each warning is logged once.
        self._warned: tuple[datetime, int] | None = None

    def look(self) -> None:
        """Check the certificate, at most once an hour. Errors are logged and retried after an hour."""
        if self._clock() < self._next:
            return
        self._next = self._clock() + _CHECK_INTERVAL_SECONDS
        try:
            if ensure_certificate(self._folder, self._settings, owner=None):
                _log.info("renewed the server's certificate")
        except (OSError, ValueError, PkiError) as exc:
            _log.warning("cannot renew the server's certificate: %s", exc)
        self._warn()

    def _warn(self) -> None:
        file = self._settings.enrolment_certificate_file
        try:
            end = read_expiry(file)
        except (OSError, ValueError) as exc:
            _log.warning("cannot read the server's certificate: %s", exc)
            return
        left, here = end - utc_now(), is_managed_here(self._folder, self._settings)
        # The default certificate is renewed before these warnings.
        windows = [days for days in EXPIRY_WINDOW_DAYS if not here or timedelta(days=days) < RENEWAL_LEAD]
        days = min((days for days in windows if left <= timedelta(days=days)), default=None)
        if days is not None and self._warned != (end, days):
            self._warned = end, days
            _log.warning(
                "the server's certificate in %s expires on %s UTC: renew the certificate", file, f"{end:%Y-%m-%d %H:%M}"
            )


def read_expiry(certificate_file: Path) -> datetime:
    """Expiry of the certificate. Raises OSError, and ValueError if the file has no certificate."""
    return x509.load_pem_x509_certificate(certificate_file.read_bytes()).not_valid_after_utc


def is_managed_here(folder: Path, settings: Settings) -> bool:
    """Whether the settings use the default certificate in `folder`."""
    return settings.enrolment_certificate_file.parent == settings.enrolment_key_file.parent == folder


def ensure_certificate(folder: Path, settings: Settings, *, owner: FileOwner | None) -> bool:
    """Create certificate and key in `folder`, unless certificate and key are valid or the settings name other files.

    Returns whether a certificate was created.
    """
    if not is_managed_here(folder, settings):
        return False
    now, names = utc_now(), _list_server_names(settings)
    if _is_current(settings, names, now):
        return False
    authority = _ensure_authority(folder, now, owner)
    key = generate_key(_PROFILE.key)
    certificate = issue(
        _PROFILE,
        public_key=key.public_key(),
        subject=subject_name("Admit enrolment"),
        sans=names,
        issuer=authority,
        now=now,
        serial=random_serial(),
    )
    _write_pem(settings.enrolment_key_file, key_pem(key), owner)
    _write_pem(settings.enrolment_certificate_file, certificates_pem([certificate]), owner, mode=0o644)
    return True


def _list_server_names(settings: Settings) -> tuple[San, ...]:
    """Names of the server: the host of the server's URL, the listen address and localhost."""
    hosts = dict.fromkeys([urlsplit(settings.enrolment_url).hostname or "", settings.listen_address, "localhost"])
    return tuple(_build_server_name(host) for host in hosts if host)


def _build_server_name(host: str) -> San:
    try:
        return build_san("ip", str(ipaddress.ip_address(host)))
    except ValueError:
        return build_san("dns", host)


def _is_current(settings: Settings, names: tuple[San, ...], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(settings.enrolment_certificate_file.read_bytes())
        key = load_key(settings.enrolment_key_file.read_bytes())
    except (OSError, ValueError, PkiError):
        return False
    if not is_same_public_key(certificate.public_key(), key.public_key()):
        return False
    return now + RENEWAL_LEAD < certificate.not_valid_after_utc and set(names) == set(read_sans(certificate))


def _ensure_authority(folder: Path, now: datetime, owner: FileOwner | None) -> Issuer:
    certificate_file, key_file = authority_path(folder), folder / "enrolment-ca.key"
    if certificate_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        return Issuer(certificate, load_key(key_file.read_bytes()))
    profile = PROFILES["root"]
    key = generate_key(profile.key)
    subject = subject_name(f"Admit enrolment CA {os.urandom(4).hex()}")
    certificate = issue_root(profile, key=key, subject=subject, now=now, serial=random_serial())
    _write_pem(key_file, key_pem(key), owner)
    _write_pem(certificate_file, certificates_pem([certificate]), owner, mode=0o644)
    return Issuer(certificate, key)


def _write_pem(path: Path, pem: bytes, owner: FileOwner | None, *, mode: int = 0o600) -> None:
    write_private(path, pem.decode(), owner=owner, mode=mode)
