"""What anybody may know of a tenant's authorities. In AuthorityScope: who asks names an authority, no tenant."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.certificates.errors import AuthorityNotFound, ListNotFound
from nac.models import CertificateAuthority, RevocationList
from pki.issuance import IssuerLocations


def authority_certificate(session: Session, *, authority_id: UUID) -> bytes:
    """DER. Raises AuthorityNotFound."""
    query = select(CertificateAuthority.certificate_der).where(CertificateAuthority.id == authority_id)
    der = session.scalar(query)
    if der is None:
        raise AuthorityNotFound("There is no such certificate authority.", place="authority")
    return der


class PublishedList(NamedTuple):
    number: int
    this_update: datetime
    next_update: datetime


def published_list(session: Session, *, authority_id: UUID) -> PublishedList:
    """Of the list that the authority publishes now. Raises ListNotFound."""
    row = RevocationList
    query = select(row.number, row.this_update, row.next_update).where(
        row.authority_id == authority_id, row.crl_der.is_not(None)
    )
    found = session.execute(query).one_or_none()
    if found is None or found.this_update is None or found.next_update is None:
        raise _no_list()
    return PublishedList(found.number, found.this_update, found.next_update)


def revocation_list(session: Session, *, authority_id: UUID) -> tuple[PublishedList, bytes]:
    """The list that the authority publishes now, in DER. Raises ListNotFound."""
    row = RevocationList
    query = select(row.number, row.this_update, row.next_update, row.crl_der).where(row.authority_id == authority_id)
    found = session.execute(query).one_or_none()
    if found is None or found.this_update is None or found.next_update is None or found.crl_der is None:
        raise _no_list()
    return PublishedList(found.number, found.this_update, found.next_update), found.crl_der


def _no_list() -> ListNotFound:
    return ListNotFound(place="authority", remedy="A new authority publishes within seconds: try again.")


def locations(public_url: str, authority_id: UUID) -> IssuerLocations:
    """Where anybody finds the authority's certificate and the status of what it issued."""
    return IssuerLocations(
        certificate=f"{public_url}/ca/{authority_id}.cer",
        ocsp=f"{public_url}/ocsp/{authority_id}",
        crl=f"{public_url}/crl/{authority_id}.crl",
    )
