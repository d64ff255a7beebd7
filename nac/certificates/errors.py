from collections.abc import Iterator
from contextlib import contextmanager

from nac.errors import AdmitError, Conflict, InvalidInput, NotFound, Unavailable
from pki.errors import PkiError, TokenRefused, TokenUnavailable


class CertificateNotFound(NotFound):
    """There is no such certificate."""


class AuthorityNotFound(NotFound):
    """There is no such certificate authority."""


class AuthorityKeyAway(Conflict):
    """The private key of a certificate authority is not kept here."""


class ListNotFound(NotFound):
    """The authority publishes no list of revoked certificates."""


class KeyStoreRefused(AdmitError):
    """The place of authorities' keys is not configured as it must be."""


class KeyStoreUnavailable(Unavailable):
    """The place of authorities' keys does not answer."""


class CertificateRefused(InvalidInput):
    """A certificate cannot be issued as asked for."""


class CertificateStatusConflict(Conflict):
    """The certificate's status does not allow this."""


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of `pki` leave as errors of the domain."""
    try:
        yield
    except TokenRefused as exc:
        raise KeyStoreRefused(str(exc), place="key store") from exc
    except TokenUnavailable as exc:
        raise KeyStoreUnavailable(str(exc), place="key store") from exc
    except PkiError as exc:
        raise CertificateRefused(str(exc), place="certificate") from exc
