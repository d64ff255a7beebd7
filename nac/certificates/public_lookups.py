"""Public data of a tenant's authorities: certificates, revocation lists, and URLs.

The functions require a session in AuthorityScope, because public requests name an authority and not a tenant.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.certificates.errors import AuthorityNotFound, ListNotFound
from nac.models import CertificateAuthority, RevocationList
from pki.issuance import IssuerLocations


def require_authority_certificate(session: Session, *, authority_id: UUID) -> bytes:
    """Return the authority's certificate as DER. Raises AuthorityNotFound."""
    query = select(CertificateAuthority.certificate_der).where(CertificateAuthority.id == authority_id)
    der = session.scalar(query)
    if der is None:
        raise AuthorityNotFound("Unknown certificate authority.", place="authority")
    return der


class PublishedList(NamedTuple):
    number: int
    this_update: datetime
    next_update: datetime


def require_published_list(session: Session, *, authority_id: UUID) -> PublishedList:
    """Return the number and validity times of the authority's published revocation list. Raises ListNotFound."""
    row = RevocationList
    query = select(row.number, row.this_update, row.next_update).where(
        row.authority_id == authority_id, row.crl_der.is_not(None)
    )
    published = session.execute(query).one_or_none()
    if published is None or published.this_update is None or published.next_update is None:
        raise _no_list_error()
    return PublishedList(published.number, published.this_update, published.next_update)


def require_revocation_list(session: Session, *, authority_id: UUID) -> tuple[PublishedList, bytes]:
    """Return number and validity times of the authority's published revocation list, and the list as DER.

    Raises ListNotFound.
    """
    row = RevocationList
    query = select(row.number, row.this_update, row.next_update, row.crl_der).where(row.authority_id == authority_id)
    published = session.execute(query).one_or_none()
    if published is None or published.this_update is None or published.next_update is None or published.crl_der is None:
        raise _no_list_error()
    return PublishedList(published.number, published.this_update, published.next_update), published.crl_der


def _no_list_error() -> ListNotFound:
    return ListNotFound(
        place="authority", remedy="A new authority publishes its revocation list within seconds. Try again."
    )


def build_locations(public_url: str, authority_id: UUID) -> IssuerLocations:
    """Return the public URLs of the authority's certificate, revocation list and OCSP responder."""
    return IssuerLocations(
        certificate=f"{public_url}/ca/{authority_id}.cer",
        ocsp=f"{public_url}/ocsp/{authority_id}",
        crl=f"{public_url}/crl/{authority_id}.crl",
    )
