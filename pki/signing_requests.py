"""Certificate signing requests (PKCS#10, RFC 2986): a public key and proposed names, signed with the private key."""

from dataclasses import dataclass

from cryptography import x509

from pki.errors import UNREADABLE_ERRORS, RequestNotAllowed
from pki.keys import PublicKey, require_acceptable
from pki.names import San, read_common_name, read_sans

_MAX_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class SigningRequest:
    public_key: PublicKey
    # The names are only proposals. The issuer selects the names in the certificate.
    common_name: str
    sans: tuple[San, ...]


def read_signing_request(data: bytes) -> SigningRequest:
    """Parse a request from PEM or DER, and verify the request's signature.

    Raises RequestNotAllowed or KeyNotAllowed.
    """
    if len(data) > _MAX_BYTES:
        raise RequestNotAllowed(f"The request has {len(data)} bytes; the maximum is {_MAX_BYTES}.")
    try:
        request = x509.load_pem_x509_csr(data) if b"-----BEGIN" in data else x509.load_der_x509_csr(data)
        proven = request.is_signature_valid
        key = request.public_key()
        names = read_common_name(request.subject), read_sans(request)
    except UNREADABLE_ERRORS as exc:
        raise RequestNotAllowed("This is not a readable PKCS#10 request in PEM or DER.") from exc
    if not proven:
        raise RequestNotAllowed(
            "The signing request is not signed with the key that it contains and SHA-256, SHA-384 or SHA-512."
        )
    return SigningRequest(require_acceptable(key), *names)
