"""Errors about certificates and requests. The package `nac` converts these errors to errors of `nac`."""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm


class PkiError(Exception):
    """Base of all errors of this package. The message names the faulty value and the allowed values."""


class ProfileErrors(PkiError):
    """A certificate profile is invalid. `mistakes` contains each mistake with the name of the profile and field."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


class NameNotAllowed(PkiError):
    """A subject or alternative name is not allowed in a certificate."""


class KeyNotAllowed(PkiError):
    """A key is too weak, unsupported or unreadable."""


class RequestNotAllowed(PkiError):
    """A certificate signing request is unreadable, or is not signed with the key that it contains."""


class IssuerNotAllowed(PkiError):
    """An authority may not issue this certificate or CRL."""


class ValidityNotAllowed(PkiError):
    """A validity period is empty, is too long, or ends after the issuer's certificate expires."""


class OcspRequestMalformed(PkiError):
    """The bytes are not an OCSP request, or the request exceeds the limits of size or certificates."""


class BundleNotAllowed(PkiError):
    """A key and certificates cannot be combined in a PKCS#12 file."""


class TokenRefused(PkiError):
    """A PKCS#11 token, the module of the token or the PIN cannot be used as configured."""


class TokenUnavailable(PkiError):
    """A PKCS#11 token is missing or fails. A later attempt may succeed."""


class DerDamaged(PkiError):
    """The bytes are not the expected DER."""


class CmsDamaged(PkiError):
    """The bytes are not the expected Cryptographic Message Syntax."""


class AlgorithmRefused(PkiError):
    """A message uses a weak or unknown algorithm."""


class SignatureRefused(PkiError):
    """The signature of a message is invalid."""


class EnvelopeRefused(PkiError):
    """An envelope cannot be decrypted. The error does not reveal the cause, because an attacker could use the cause."""


class UploadNotReadable(PkiError):
    """A file contains no readable certificates."""


class StatusNotUsable(PkiError):
    """A CRL or OCSP response is unreadable, expired or from another authority."""


# Errors that `cryptography` and this package raise for invalid bytes.
UNREADABLE_ERRORS = (
    ValueError,
    TypeError,
    IndexError,
    UnsupportedAlgorithm,
    DerDamaged,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
