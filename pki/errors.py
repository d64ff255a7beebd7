"""What can be wrong with a request for a certificate. The domain turns these into errors of its own."""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm


class PkiError(Exception):
    """Base of every error of this package; the message names the place and what is allowed there."""


class ProfileErrors(PkiError):
    """A written profile is not valid; `mistakes` holds every mistake with its place."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


class NameNotAllowed(PkiError):
    """A subject or alternative name cannot stand in a certificate."""


class KeyNotAllowed(PkiError):
    """A key is too weak, of a kind that is not supported, or not readable."""


class RequestNotAllowed(PkiError):
    """A certificate signing request is not readable or not signed by its own key."""


class IssuerNotAllowed(PkiError):
    """A certificate cannot issue this one."""


class ValidityNotAllowed(PkiError):
    """A validity period is empty, too long, or outlives its issuer."""


class OcspRequestMalformed(PkiError):
    """These bytes are no OCSP request, or one that goes beyond the bounds."""


class BundleNotAllowed(PkiError):
    """A PKCS#12 file cannot be made from these parts."""


class TokenRefused(PkiError):
    """A PKCS#11 token, its module or its PIN cannot be used as it is configured."""


class TokenUnavailable(PkiError):
    """A PKCS#11 token is away or out of order; it may come back."""


class DerDamaged(PkiError):
    """These bytes are not the DER they should be."""


class CmsDamaged(PkiError):
    """These bytes are not the Cryptographic Message Syntax that they should be."""


class AlgorithmRefused(PkiError):
    """A message uses an algorithm that is too weak or not known."""


class SignatureRefused(PkiError):
    """A message's signature does not hold."""


class EnvelopeRefused(PkiError):
    """An envelope cannot be opened; the same for every reason, so that nothing can be learned from it."""


class UploadNotReadable(PkiError):
    """A file that should hold certificates does not."""


class StatusNotUsable(PkiError):
    """What an authority says of its certificates cannot be read, is not its own, or holds no more."""


# What `cryptography` and pki raise over bytes that are not what they should be.
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
