"""Reads the device's certificate from the stored TLS session, and makes each reconnect resumable.

radiusd's own attributes of a certificate are unsuitable for decisions (FreeRADIUS 3.2.7, src/main/tls.c,
libeap/eap_tls.c):

* radiusd interprets escapes in names ("adm\\151n" becomes "admin").
* radiusd uses the issuer's common name if the certificate has no common name.
* radiusd expands "%{...}" when radiusd resumes a session.
* When radiusd resumes a session, radiusd restores some names with TLS 1.2, and no names with TLS 1.3.

But radiusd stores each session with the client's certificate, in the file `<id>.asn1` (OpenSSL's SSL_SESSION). radiusd
stores the name of this file in TLS-Cache-Filename. This module reads the certificate from the session file.

For a resumed session, radiusd reads attributes from `<id>.vps`. radiusd writes `<id>.vps` only after a full handshake,
but each TLS 1.3 resumption creates a new ticket with a new id. So this module writes `<id>.vps`, too. Otherwise, every
second reconnect would need a full handshake.
"""

import errno
import os
from collections import OrderedDict
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID, ObjectIdentifier

from nac.kit.text_format import escape_controls
from pki.errors import DerDamaged
from pki.openssl_names import issuer_line, subject_line
from pki.serials import serial_bytes
from radius.module.request import Attributes

# Limit of certificates in the cache. Each entry takes about 2 kB and saves 50 us of parsing.
MAX_CERTIFICATES = 10_000
_MAX_SESSION_BYTES = 64 * 1024
_UPN = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
_PEER_TAG = 0xA3
_VERSIONS = {b"\x03\x03": "1.2", b"\x03\x04": "1.3"}
# Errors of `cryptography` and pki for an invalid certificate.
UNREADABLE_ERRORS = (
    ValueError,
    TypeError,
    DerDamaged,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)

_parsed_certificates: OrderedDict[bytes, Attributes] = OrderedDict()


class StoredCertificate(NamedTuple):
    der: bytes
    # Fields of the certificate, by radiusd's attribute names.
    attributes: Attributes


class SessionUnreadable(Exception):
    """The stored session does not exist, or contains no client certificate."""


class CertificateUnreadable(Exception):
    """A certificate that OpenSSL has accepted cannot be parsed."""


def read_stored_certificate(session_file: str) -> StoredCertificate:
    """Read the client's certificate from the session in `session_file`.

    Raises SessionUnreadable or CertificateUnreadable.
    """
    try:
        session = _read_session(session_file)
    except OSError as exc:
        raise SessionUnreadable(f"{session_file}: {exc}") from exc
    der = parse_peer_certificate(session)
    attributes = _parsed_certificates.get(der)
    if attributes is None:
        attributes = certificate_attributes(der)
        _parsed_certificates[der] = attributes
        if len(_parsed_certificates) > MAX_CERTIFICATES:
            _parsed_certificates.popitem(last=False)
    return StoredCertificate(der, attributes)


def read_stored_version(session_file: str) -> str:
    """TLS version of the session in `session_file`, such as "1.2"; "" if the session cannot be read."""
    try:
        return parse_tls_version(_read_session(session_file))
    except (OSError, SessionUnreadable):
        return ""


def keep_resumable(session_file: str, certificate: Attributes) -> None:
    """Write the attribute file for `session_file`. Without this file, radiusd does not resume the session.

    radiusd needs the expiry time in this file, so that the session ends when the certificate expires. This module needs
    TLS-Client-Cert-Filename, because a TLS 1.2 resumption stores no new session. This attribute names the file of the
    original session.
    """
    stem, _ = os.path.splitext(session_file)
    text = (
        f"# SSL cached session\n{os.path.basename(stem)}\n"
        f'\tEAP-Type = TLS,\n\tTLS-Client-Cert-Expiration := "{certificate["TLS-Client-Cert-Expiration"][0]}",\n'
        f'\tTLS-Client-Cert-Serial := "{certificate["TLS-Client-Cert-Serial"][0]}",\n'
        f'\tTLS-Client-Cert-Filename := "{session_file}"\n'
    )
    path = stem + ".vps"
    try:
        if not _write_new(path, text.encode()):
            # The file exists, because a resumed TLS 1.2 session keeps its name. Replace it by rename: another thread
            # may be reading it.
            temporary = stem + ".new"
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            _write_new(temporary, text.encode())
            os.replace(temporary, path)
    except OSError:
        # No disk space. The device does a full handshake next time.
        for left in (stem + ".new", path):
            with suppress(OSError):
                os.unlink(left)


def discard_session(session_file: str) -> None:
    """Delete the stored session in `session_file`. Does nothing if `session_file` is ""."""
    if not session_file:
        return
    stem, _ = os.path.splitext(session_file)
    for path in (session_file, stem + ".vps"):
        with suppress(FileNotFoundError):
            os.unlink(path)


# System calls, because file objects take three times as long, and each handshake reads a session.
def _read_session(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MAX_SESSION_BYTES)
    finally:
        os.close(descriptor)


def _write_new(path: str, content: bytes) -> bool:
    """Write the file if it does not exist. Returns whether the file was written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
    return True


def parse_tls_version(session: bytes) -> str:
    """TLS version in an SSL_SESSION, which begins with `version INTEGER, SSLversion INTEGER`.

    Returns "" for a version that Admit does not offer. Raises SessionUnreadable.
    """
    _, position, end = _parse_der_header(session, 0, len(session))
    _, _, position = _parse_der_header(session, position, end)
    _, start, following = _parse_der_header(session, position, end)
    return _VERSIONS.get(session[start:following], "")


def parse_peer_certificate(session: bytes) -> bytes:
    """Peer certificate (DER) in an SSL_SESSION (`peer [3] EXPLICIT Certificate` in OpenSSL ssl/ssl_asn1.c).

    Raises SessionUnreadable.
    """
    tag, position, end = _parse_der_header(session, 0, len(session))
    if tag != 0x30:
        raise SessionUnreadable("not an SSL_SESSION")
    while position < end:
        tag, start, following = _parse_der_header(session, position, end)
        if tag == _PEER_TAG:
            return session[start:following]
        position = following
    raise SessionUnreadable("the session holds no client certificate")


def _parse_der_header(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the DER element at `position` (X.690 8.1)."""
    if position + 2 > end:
        raise SessionUnreadable("the session is cut short")
    tag, length = data[position], data[position + 1]
    start = position + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or start + count > end:
            raise SessionUnreadable("the session has a bad length")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + length > end:
        raise SessionUnreadable("the session is cut short")
    return tag, start, start + length


def certificate_attributes(der: bytes) -> Attributes:
    """Fields of the certificate, by radiusd's attribute names (cbtls_verify in src/main/tls.c).

    Raises CertificateUnreadable.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        fields: dict[str, tuple[str, ...]] = {
            "TLS-Client-Cert-Serial": (serial_bytes(certificate.serial_number).hex(),),
            "TLS-Client-Cert-Issuer": (issuer_line(certificate),),
            "TLS-Client-Cert-Subject": (subject_line(certificate),),
            "TLS-Client-Cert-Expiration": (_asn1_time(certificate.not_valid_after_utc),),
            "TLS-Client-Cert-Common-Name": tuple(
                str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[:1]
            ),
            **_alternative_names(certificate),
            "TLS-Client-Cert-X509v3-Extended-Key-Usage-OID": _extended_key_usages(certificate),
        }
    except UNREADABLE_ERRORS as exc:
        raise CertificateUnreadable(f"the certificate does not parse: {exc}") from exc
    # A field whose text is empty counts as missing.
    return {
        name: kept for name, values in fields.items() if (kept := tuple(map(escape_controls, filter(None, values))))
    }


def _asn1_time(moment: datetime) -> str:
    """Time in the certificate's format (RFC 5280 4.1.2.5): the year has two digits until 2049, then four."""
    return f"{moment:%y%m%d%H%M%SZ}" if moment.year < 2050 else f"{moment:%Y%m%d%H%M%SZ}"


def _alternative_names(certificate: x509.Certificate) -> dict[str, tuple[str, ...]]:
    try:
        names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except x509.ExtensionNotFound:
        return {}
    assert isinstance(names, x509.SubjectAlternativeName)
    return {
        "TLS-Client-Cert-Subject-Alt-Name-Dns": tuple(names.get_values_for_type(x509.DNSName)),
        "TLS-Client-Cert-Subject-Alt-Name-Email": tuple(names.get_values_for_type(x509.RFC822Name)),
        "TLS-Client-Cert-Subject-Alt-Name-Uri": tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        "TLS-Client-Cert-Subject-Alt-Name-Upn": tuple(
            _utf8_string(other.value) for other in names.get_values_for_type(x509.OtherName) if other.type_id == _UPN
        ),
    }


def _utf8_string(der: bytes) -> str:
    tag, start, end = _parse_der_header(der, 0, len(der))
    return der[start:end].decode("utf-8") if tag == 0x0C else ""


def _extended_key_usages(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        usages = certificate.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value
    except x509.ExtensionNotFound:
        return ()
    assert isinstance(usages, x509.ExtendedKeyUsage)
    return tuple(usage.dotted_string for usage in usages)
