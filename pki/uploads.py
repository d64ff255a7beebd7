"""Uploaded authorities: functions to parse common file formats, and to check certificates before Admit trusts them."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs7 import (
    load_der_pkcs7_certificates,
    load_pem_pkcs7_certificates,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from pki.errors import UNREADABLE_ERRORS, KeyNotAllowed, UploadNotReadable
from pki.issuance import key_identifier
from pki.keys import require_acceptable
from pki.openssl_names import issuer_line, subject_line
from pki.signatures import is_signed_with, public_key_der

MAX_FILE_BYTES = 256 * 1024
MAX_CERTIFICATES = 20
_STRONG_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
# Critical extensions that OpenSSL supports for an authority. OpenSSL rejects all others (RFC 5280 4.2).
_KNOWN_EXTENSIONS = {
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.POLICY_CONSTRAINTS,
    ExtensionOID.INHIBIT_ANY_POLICY,
}
_CLIENT_USAGES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


def read_certificates(data: bytes) -> list[x509.Certificate]:
    """Return the certificates in a file: PEM with one or several certificates, DER with one certificate, or PKCS#7 (RFC
    2315) in PEM or DER.

    Raises UploadNotReadable.
    """
    if len(data) > MAX_FILE_BYTES:
        raise UploadNotReadable(f"The file has {len(data)} bytes; the maximum is {MAX_FILE_BYTES}.")
    if b"PRIVATE KEY-----" in data:
        raise UploadNotReadable(
            "The file has a private key. Only the authority may have this key: remove the key from the file."
        )
    certificates = _parse_any_form(data)
    if not certificates:
        raise UploadNotReadable("The file has no certificate in PEM, DER or PKCS#7.")
    if len(certificates) > MAX_CERTIFICATES:
        raise UploadNotReadable(f"The file has {len(certificates)} certificates; the maximum is {MAX_CERTIFICATES}.")
    for number, certificate in enumerate(certificates, 1):
        _require_readable(certificate, number)
    return certificates


def _parse_any_form(data: bytes) -> list[x509.Certificate]:
    readers: Sequence[Callable[[bytes], list[x509.Certificate]]] = (
        (load_pem_pkcs7_certificates,)
        if b"-----BEGIN PKCS7" in data
        else (x509.load_pem_x509_certificates,)
        if b"-----BEGIN" in data
        else (_load_der, load_der_pkcs7_certificates)
    )
    for read in readers:
        try:
            return read(data)
        except UNREADABLE_ERRORS:
            continue
    return []


def _load_der(data: bytes) -> list[x509.Certificate]:
    return [x509.load_der_x509_certificate(data)]


def _require_readable(certificate: x509.Certificate, number: int) -> None:
    """Read all parts of a certificate, because `cryptography` finds an error in a part only when the part is read."""
    try:
        subject_line(certificate)
        issuer_line(certificate)
        list(certificate.extensions)
        certificate.public_key()
        x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
    except UNREADABLE_ERRORS as exc:
        raise UploadNotReadable(f"Certificate {number} of the file is not readable: {exc}") from exc


def is_root(certificate: x509.Certificate) -> bool:
    """Whether the certificate is self-signed. Accepts weak signatures, because nothing relies on a root's signature."""
    if subject_line(certificate) != issuer_line(certificate):
        return False
    return is_signed_with(certificate, _public_key(certificate)) or (
        not has_strong_signature(certificate) and _names_no_other_key(certificate)
    )


def _names_no_other_key(certificate: x509.Certificate) -> bool:
    try:
        named = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return True
    return named in (None, key_identifier(certificate))


def has_strong_signature(certificate: x509.Certificate) -> bool:
    return isinstance(_signature_hash(certificate), _STRONG_HASHES)


def _signature_hash(certificate: x509.Certificate) -> hashes.HashAlgorithm | None:
    try:
        return certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None


def has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    return subject_line(authority) == issuer_line(certificate) and is_signed_with(certificate, _public_key(authority))


def compute_key_identifier(certificate: x509.Certificate) -> bytes:
    """Compute the key identifier from the public key (RFC 5280 4.2.1.2, method 1), not from the extension."""
    return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest


def list_mistakes(certificate: x509.Certificate, *, now: datetime) -> Iterable[str]:
    """Yield, as sentences, the reasons why Admit cannot trust this authority for device certificates."""
    extensions = {extension.oid: extension for extension in certificate.extensions}
    constraints = extensions.get(ExtensionOID.BASIC_CONSTRAINTS)
    if constraints is None or not constraints.value.ca:
        yield "The certificate is not an authority (see basicConstraints). Upload the authority that issued it."
    else:
        usage = extensions.get(ExtensionOID.KEY_USAGE)
        if usage is None or not usage.value.key_cert_sign:
            yield "The authority may not sign certificates (keyUsage lacks keyCertSign)."
    purposes = extensions.get(ExtensionOID.EXTENDED_KEY_USAGE)
    if purposes is not None and not _CLIENT_USAGES & set(purposes.value):
        yield "The authority may not issue certificates for clients (extendedKeyUsage lacks clientAuth)."
    for extension in extensions.values():
        if extension.critical and extension.oid not in _KNOWN_EXTENSIONS:
            yield f"The critical extension {extension.oid.dotted_string} is not supported."
    if certificate.not_valid_after_utc <= now:
        yield f"The certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}."
    if certificate.not_valid_before_utc > now:
        yield f"The certificate is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}."
    yield from list_weaknesses(certificate)


def list_weaknesses(certificate: x509.Certificate) -> Iterable[str]:
    """Yield, as sentences, why the key or the signature of this authority is too weak."""
    try:
        require_acceptable(certificate.public_key())
    except KeyNotAllowed as exc:
        yield str(exc)
    if not is_root(certificate) and not has_strong_signature(certificate):
        used = _signature_hash(certificate)
        name = used.name if used else "no known hash"
        yield f"The certificate is signed with {name}; SHA-256, SHA-384 or SHA-512 is needed."


def _public_key(certificate: x509.Certificate) -> bytes:
    return public_key_der(certificate.public_bytes(Encoding.DER))
