from collections.abc import Iterator
from contextlib import contextmanager

from nac.kit.errors import AdmitError, Conflict, InvalidInput, NotFound, Unavailable
from pki.errors import PkiError, TokenRefused, TokenUnavailable


class CertificateNotFound(NotFound):
    """The certificate does not exist."""


class AuthorityNotFound(NotFound):
    """The certificate authority does not exist."""


class AuthorityKeyAway(Conflict):
    """Admit does not store the private key of the certificate authority."""


class ListNotFound(NotFound):
    """The authority publishes no revocation list."""


class KeyStoreRefused(AdmitError):
    """The key store of the authorities is not configured correctly."""


class KeyStoreUnavailable(Unavailable):
    """The key store of the authorities does not respond."""


class CertificateRefused(InvalidInput):
    """The certificate cannot be issued with these values."""


class CertificateStatusConflict(Conflict):
    """The status of the certificate does not allow this operation."""


class DuplicateKey(Conflict):
    """Another certificate already has this key."""


@contextmanager
def translate_pki_errors() -> Iterator[None]:
    """Convert errors of the package `pki` to errors of this package."""
    try:
        yield
    except TokenRefused as exc:
        raise KeyStoreRefused(str(exc), place="key store") from exc
    except TokenUnavailable as exc:
        raise KeyStoreUnavailable(str(exc), place="key store") from exc
    except PkiError as exc:
        raise CertificateRefused(str(exc), place="certificate") from exc
