"""Errors of certificates and requests. The domain converts them to its own errors."""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm


class PkiError(Exception):
    """Base of all errors of this package. The message names the place and the allowed values."""


class ProfileErrors(PkiError):
    """An invalid profile; `mistakes` has every mistake with its place."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


class NameNotAllowed(PkiError):
    """A subject or alternative name is not allowed in a certificate."""


class KeyNotAllowed(PkiError):
    """A key is too weak, unsupported or unreadable."""


class RequestNotAllowed(PkiError):
    """A certificate signing request is unreadable or not signed with its own key."""


class IssuerNotAllowed(PkiError):
    """A certificate cannot issue this one."""


class ValidityNotAllowed(PkiError):
    """A validity period is empty, too long, or outlives its issuer."""


class OcspRequestMalformed(PkiError):
    """The bytes are no OCSP request, or the request exceeds the limits."""


class BundleNotAllowed(PkiError):
    """These parts cannot be put into a PKCS#12 file."""


class TokenRefused(PkiError):
    """A PKCS#11 token, its module or its PIN is unusable as configured."""


class TokenUnavailable(PkiError):
    """A PKCS#11 token is missing or fails; it may come back."""


class DerDamaged(PkiError):
    """The bytes are not the expected DER."""


class CmsDamaged(PkiError):
    """The bytes are not the expected Cryptographic Message Syntax."""


class AlgorithmRefused(PkiError):
    """A message uses a weak or unknown algorithm."""


class SignatureRefused(PkiError):
    """The signature of a message is invalid."""


class EnvelopeRefused(PkiError):
    """An envelope cannot be opened. Equal for every cause, so that it reveals nothing."""


class UploadNotReadable(PkiError):
    """A file has no readable certificates."""


class StatusNotUsable(PkiError):
    """A status from an authority is unreadable, foreign or expired."""


# Errors of `cryptography` and pki for invalid bytes.
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
