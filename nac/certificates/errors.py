from collections.abc import Iterator
from contextlib import contextmanager

from nac.errors import Conflict, InvalidInput, NotFound
from pki.errors import PkiError


class CertificateNotFound(NotFound):
    """There is no such certificate."""


class AuthorityNotFound(NotFound):
    """There is no such certificate authority."""


class AuthorityKeyAway(Conflict):
    """The private key of a certificate authority is not kept here."""


class CertificateRefused(InvalidInput):
    """A certificate cannot be issued as asked for."""


class CertificateStatusConflict(Conflict):
    """The certificate's status does not allow this."""


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of `pki` leave as errors of the domain."""
    try:
        yield
    except PkiError as exc:
        raise CertificateRefused(str(exc), place="certificate") from exc
