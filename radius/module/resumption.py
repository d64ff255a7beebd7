"""TLS 1.3 resumption that works at every reconnect, decided on the certificate that opened the session.

FreeRADIUS 3.2.7 falls short twice on a resumed TLS 1.3 session. It does not bring back the attributes of the client's
certificate, on which policy decides. And it writes the attribute file (`<id>.vps`, without which it refuses to resume)
only after full handshakes, though each resumption gives the client a new ticket: every second reconnect would be full.

Both are mended from the session itself: radiusd stores it as `<id>.asn1` (OpenSSL's SSL_SESSION) with the client's
certificate inside, and names the file in TLS-Cache-Filename.
"""

import os
from collections import OrderedDict

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID, ObjectIdentifier

from pki.openssl_names import one_line
from radius.module.request import Attributes

# Certificates of devices that reconnect; each entry takes about 2 kB.
MAX_CERTIFICATES = 10_000
_MAX_SESSION_BYTES = 64 * 1024
_UPN = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
_PEER_TAG = 0xA3

_known: OrderedDict[bytes, Attributes] = OrderedDict()


class SessionUnreadable(Exception):
    """The stored session holds no client certificate."""


def resumed_certificate(cache_file: str) -> Attributes:
    """The client's certificate in the session at `cache_file`, as the attributes that full handshakes come with.

    Raises SessionUnreadable.
    """
    try:
        with open(cache_file, "rb") as file:
            session = file.read(_MAX_SESSION_BYTES)
    except OSError as exc:
        raise SessionUnreadable(f"{cache_file}: {exc}") from exc
    der = peer_certificate(session)
    found = _known.get(der)
    if found is None:
        found = certificate_attributes(der)
        _known[der] = found
        if len(_known) > MAX_CERTIFICATES:
            _known.popitem(last=False)
    return found


def keep_resumable(cache_file: str, certificate: Attributes) -> None:
    """Write the attribute file beside `cache_file`, so that the ticket of this resumed session resumes too.

    Of its content radiusd needs the expiry: it ends the session with the certificate.
    """
    stem, _ = os.path.splitext(cache_file)
    text = (
        f"# SSL cached session\n{os.path.basename(stem)}\n"
        f'\tEAP-Type = TLS,\n\tTLS-Client-Cert-Expiration := "{certificate["TLS-Client-Cert-Expiration"][0]}",\n'
        f'\tTLS-Client-Cert-Serial := "{certificate["TLS-Client-Cert-Serial"][0]}"\n'
    )
    try:
        descriptor = os.open(stem + ".vps", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def peer_certificate(session: bytes) -> bytes:
    """DER of the peer's certificate in an SSL_SESSION (OpenSSL ssl/ssl_asn1.c: `peer [3] EXPLICIT Certificate`).

    Raises SessionUnreadable.
    """
    tag, position, end = _header(session, 0, len(session))
    if tag != 0x30:
        raise SessionUnreadable("not an SSL_SESSION")
    while position < end:
        tag, start, following = _header(session, position, end)
        if tag == _PEER_TAG:
            return session[start:following]
        position = following
    raise SessionUnreadable("the session holds no client certificate")


def _header(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """(tag, where the content starts, where it ends) of the DER element at `position` (X.690 8.1)."""
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
    """What radiusd's cbtls_verify (src/main/tls.c) reports of this certificate, by the same names.

    Raises SessionUnreadable.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        found: dict[str, tuple[str, ...]] = {
            "TLS-Client-Cert-Serial": (_serial_hex(certificate.serial_number),),
            "TLS-Client-Cert-Issuer": (one_line(certificate.issuer),),
            "TLS-Client-Cert-Subject": (one_line(certificate.subject),),
            "TLS-Client-Cert-Expiration": (certificate.not_valid_after_utc.strftime("%y%m%d%H%M%SZ"),),
            "TLS-Client-Cert-Common-Name": tuple(
                str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[:1]
            ),
            **_alternative_names(certificate),
            "TLS-Client-Cert-X509v3-Extended-Key-Usage-OID": _usages(certificate),
        }
    except ValueError as exc:
        raise SessionUnreadable(f"the session's certificate does not parse: {exc}") from exc
    return {name: values for name, values in found.items() if values}


def _serial_hex(serial: int) -> str:
    return serial.to_bytes((serial.bit_length() + 7) // 8 or 1, "big").hex()


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
    tag, start, end = _header(der, 0, len(der))
    return der[start:end].decode("utf-8") if tag == 0x0C else ""


def _usages(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        usages = certificate.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value
    except x509.ExtensionNotFound:
        return ()
    assert isinstance(usages, x509.ExtendedKeyUsage)
    return tuple(usage.dotted_string for usage in usages)
