"""Certificate status from external authorities, in CRLs (RFC 5280 5) and OCSP responses (RFC 6960).

The data is untrusted, so the functions check the size before they parse, and the signature before they use a status.
They reject CRLs that do not cover all certificates of the authority (partial, delta or indirect CRLs).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from pki import der
from pki.errors import UNREADABLE_ERRORS, StatusNotUsable
from pki.openssl_names import format_one_line
from pki.serials import serial_bytes
from pki.signatures import is_signed_with, public_key_der

MAX_CRL_BYTES = 16 << 20
MAX_REVOKED = 250_000
MAX_OCSP_BYTES = 64 << 10
# Tolerated difference between the clocks of Admit and the authority.
_SKEW = timedelta(minutes=5)
# Time for which Admit uses an OCSP response without nextUpdate. For such a response, newer information is always
# available (RFC 6960 4.2.2.1).
_DEFAULT_LIFETIME = timedelta(minutes=10)


class ExternalRevocationList(NamedTuple):
    # Number of the CRL. RFC 5280 5.2.3 requires it; None if the authority violates this rule.
    number: int | None
    this_update: datetime
    next_update: datetime
    # Revoked serial numbers, big-endian, without leading zero bytes.
    serials: frozenset[bytes]


class OcspStatus(NamedTuple):
    revoked: bool
    this_update: datetime
    until: datetime


def read_crl(data: bytes, authority: x509.Certificate, *, now: datetime) -> ExternalRevocationList:
    """Parse a complete, current CRL that this authority has signed. Raises StatusNotUsable."""
    _require_size(data, MAX_CRL_BYTES)
    try:
        crl = x509.load_pem_x509_crl(data) if data.startswith(b"-----BEGIN") else x509.load_der_x509_crl(data)
        if format_one_line(crl.issuer) != format_one_line(authority.subject):
            raise StatusNotUsable("The CRL is from another authority.")
        if not _may_sign_lists(authority) or not _is_signed(crl, authority):
            raise StatusNotUsable("The CRL is not signed by the authority.")
        if crl.next_update_utc is None:
            raise StatusNotUsable("The CRL has no nextUpdate.")
        _require_current(crl.last_update_utc, crl.next_update_utc, now)
        number = _read_number(crl)
        if len(crl) > MAX_REVOKED:
            raise StatusNotUsable(f"The CRL has {len(crl)} entries; the maximum is {MAX_REVOKED}.")
        return ExternalRevocationList(number, crl.last_update_utc, crl.next_update_utc, frozenset(_iter_serials(crl)))
    except UNREADABLE_ERRORS as exc:
        raise StatusNotUsable(f"Invalid certificate revocation list: {exc}") from exc


def _is_signed(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return crl.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except InvalidSignature:
        return False


def _may_sign_lists(authority: x509.Certificate) -> bool:
    """Whether keyUsage allows the authority to sign CRLs (RFC 5280 6.3.3 (f))."""
    try:
        return authority.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign
    except x509.ExtensionNotFound:
        return True


def _read_number(crl: x509.CertificateRevocationList) -> int | None:
    number = None
    for extension in crl.extensions:
        match extension.value:
            case x509.CRLNumber(crl_number=found):
                number = found
            case x509.DeltaCRLIndicator():
                raise StatusNotUsable("The CRL is a delta CRL; a complete CRL is required.")
            case x509.IssuingDistributionPoint() as point:
                if point.indirect_crl or point.only_some_reasons or point.only_contains_ca_certs:
                    raise StatusNotUsable("The CRL is partial and does not cover certificates of devices.")
                if point.only_contains_attribute_certs:
                    raise StatusNotUsable("The CRL covers only attribute certificates.")
            case _ if extension.critical:
                raise StatusNotUsable(f"Unknown critical extension {extension.oid.dotted_string}.")
    return number


def _iter_serials(crl: x509.CertificateRevocationList) -> Iterator[bytes]:
    for entry in crl:
        if any(extension.critical for extension in entry.extensions):
            raise StatusNotUsable("An entry of the CRL has a critical extension.")
        if entry.serial_number > 0:
            yield serial_bytes(entry.serial_number)


def build_ocsp_request(authority: x509.Certificate, serial: bytes) -> bytes:
    """Build an OCSP request (DER) about one certificate.

    The request has no nonce, because many responders send responses that they signed in advance (RFC 5019).
    """
    name_hash, key_hash = _issuer_hashes(authority, hashes.SHA1())  # noqa: S303 -- it identifies, and protects nothing
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(
        name_hash,
        key_hash,
        int.from_bytes(serial),
        hashes.SHA1(),  # noqa: S303
    )
    return builder.build().public_bytes(Encoding.DER)


def _issuer_hashes(authority: x509.Certificate, algorithm: hashes.HashAlgorithm) -> tuple[bytes, bytes]:
    digests = []
    subject = der.read_names(authority.tbs_certificate_bytes)[1]
    for octets in (subject, _key_bits(authority)):
        digest = hashes.Hash(algorithm)
        digest.update(octets)
        digests.append(digest.finalize())
    return digests[0], digests[1]


def _key_bits(authority: x509.Certificate) -> bytes:
    """Content of the public key's BIT STRING without the first octet, the number of unused bits (RFC 6960 4.1.1)."""
    outer, _ = der.read_element(public_key_der(authority.public_bytes(Encoding.DER)))
    return list(der.iter_children(outer.content))[1].content[1:]


def read_ocsp(data: bytes, authority: x509.Certificate, serial: bytes, *, now: datetime) -> OcspStatus:
    """Read the status of a certificate from an OCSP response of its authority or of a delegated responder.

    Raises StatusNotUsable.
    """
    _require_size(data, MAX_OCSP_BYTES)
    try:
        response = ocsp.load_der_ocsp_response(data)
        if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise StatusNotUsable(f"The responder returned an error: {response.response_status.name.lower()}.")
        if not any(_is_signed_response(response, key) for key in _responder_keys(response, authority, now)):
            raise StatusNotUsable("The response is not signed by the authority or its responder.")
        for single in response.responses:
            if _is_about(single, authority, serial):
                return _read_single_response(single, now)
    except UNREADABLE_ERRORS as exc:
        raise StatusNotUsable(f"Invalid OCSP response: {exc}") from exc
    raise StatusNotUsable("The OCSP response is for another certificate.")


def _is_about(single: ocsp.OCSPSingleResponse, authority: x509.Certificate, serial: bytes) -> bool:
    named = single.issuer_name_hash, single.issuer_key_hash
    return single.serial_number == int.from_bytes(serial) and named == _issuer_hashes(authority, single.hash_algorithm)


def _read_single_response(single: ocsp.OCSPSingleResponse, now: datetime) -> OcspStatus:
    if single.certificate_status is ocsp.OCSPCertStatus.UNKNOWN:
        raise StatusNotUsable("The responder does not know the certificate.")
    until = single.next_update_utc or now + _DEFAULT_LIFETIME
    _require_current(single.this_update_utc, until, now)
    return OcspStatus(single.certificate_status is ocsp.OCSPCertStatus.REVOKED, single.this_update_utc, until)


def _responder_keys(
    response: ocsp.OCSPResponse, authority: x509.Certificate, now: datetime
) -> Iterator[PublicKeyTypes]:
    """Keys that may sign the response: keys of the authority and of delegated responders (RFC 6960 4.2.2.2)."""
    yield authority.public_key()
    for certificate in response.certificates:
        if _is_delegated(certificate, authority, now):
            yield certificate.public_key()


def _is_delegated(certificate: x509.Certificate, authority: x509.Certificate, now: datetime) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return (
        ExtendedKeyUsageOID.OCSP_SIGNING in usages
        and certificate.not_valid_before_utc - _SKEW <= now <= certificate.not_valid_after_utc
        and format_one_line(certificate.issuer) == format_one_line(authority.subject)
        and is_signed_with(certificate, public_key_der(authority.public_bytes(Encoding.DER)))
    )


def _is_signed_response(response: ocsp.OCSPResponse, key: PublicKeyTypes) -> bool:
    digest = response.signature_hash_algorithm
    if digest is None or isinstance(digest, hashes.SHA1):
        return False
    try:
        match key:
            case rsa.RSAPublicKey():
                key.verify(response.signature, response.tbs_response_bytes, padding.PKCS1v15(), digest)
            case ec.EllipticCurvePublicKey():
                key.verify(response.signature, response.tbs_response_bytes, ec.ECDSA(digest))
            case _:
                return False
    except InvalidSignature:
        return False
    return True


def _require_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise StatusNotUsable(f"The status has {len(data)} bytes; the maximum is {most}.")


def _require_current(begin: datetime, end: datetime, now: datetime) -> None:
    if begin > now + _SKEW:
        raise StatusNotUsable(f"The status is from {begin:%Y-%m-%d %H:%M} UTC, which is in the future.")
    if end <= now:
        raise StatusNotUsable(f"The status expired at {end:%Y-%m-%d %H:%M} UTC.")
