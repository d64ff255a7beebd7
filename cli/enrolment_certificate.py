"""What the enrolment port of an embedded Admit shows where nobody gave it a certificate: one of an authority made here.

Devices must trust `enrolment-ca.pem` then. The server's certificate is made anew a month before it ends, or when the
addresses change; the authority stays.
"""

import ipaddress
import os
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from cli.account import Account
from cli.files import write_private
from nac.clock import utc_now
from nac.settings import Settings
from pki.bundles import certificates_pem
from pki.errors import PkiError
from pki.issuing import Issuer, issue, issue_root
from pki.keys import generate_key, key_pem, load_key, same_public_key
from pki.names import San, san, sans_of, subject_name
from pki.profiles import PROFILES, parse_profiles
from pki.serials import random_serial

_RENEW_AHEAD = timedelta(days=30)
# Apple takes no TLS server certificate that lives longer (support article HT211025).
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


def authority_file(folder: Path) -> Path:
    return folder / "enrolment-ca.pem"


def ensure_certificate(folder: Path, settings: Settings, *, owner: Account | None) -> bool:
    """Have certificate and key in `folder` unless the settings name files elsewhere; returns whether one was made."""
    if settings.enrolment_certificate_file.parent != folder or settings.enrolment_key_file.parent != folder:
        return False
    now, names = utc_now(), _names(settings)
    if _serves(settings, names, now):
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
    _write(settings.enrolment_key_file, key_pem(key), owner)
    _write(settings.enrolment_certificate_file, certificates_pem([certificate]), owner, mode=0o644)
    return True


def _names(settings: Settings) -> tuple[San, ...]:
    """Where the port is reached: its URL's host, and this machine's own."""
    hosts = dict.fromkeys([urlsplit(settings.enrolment_url).hostname or "", settings.listen_address, "localhost"])
    return tuple(_name(host) for host in hosts if host)


def _name(host: str) -> San:
    try:
        return san("ip", str(ipaddress.ip_address(host)))
    except ValueError:
        return san("dns", host)


def _serves(settings: Settings, names: tuple[San, ...], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(settings.enrolment_certificate_file.read_bytes())
        key = load_key(settings.enrolment_key_file.read_bytes())
    except (OSError, ValueError, PkiError):
        return False
    if not same_public_key(certificate.public_key(), key.public_key()):
        return False
    return now + _RENEW_AHEAD < certificate.not_valid_after_utc and set(names) == set(sans_of(certificate))


def _ensure_authority(folder: Path, now: datetime, owner: Account | None) -> Issuer:
    certificate_file, key_file = authority_file(folder), folder / "enrolment-ca.key"
    if certificate_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        return Issuer(certificate, load_key(key_file.read_bytes()))
    profile = PROFILES["root"]
    key = generate_key(profile.key)
    subject = subject_name(f"Admit enrolment CA {os.urandom(4).hex()}")
    certificate = issue_root(profile, key=key, subject=subject, now=now, serial=random_serial())
    _write(key_file, key_pem(key), owner)
    _write(certificate_file, certificates_pem([certificate]), owner, mode=0o644)
    return Issuer(certificate, key)


def _write(path: Path, pem: bytes, owner: Account | None, *, mode: int = 0o600) -> None:
    write_private(path, pem.decode(), owner=owner, mode=mode)
