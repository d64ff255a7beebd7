"""What anybody may know of a tenant's authorities. In AuthorityScope: who asks names an authority, no tenant."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.certificates.errors import AuthorityNotFound
from nac.models import CertificateAuthority
from pki.issuing import Locations


def authority_certificate(session: Session, *, authority_id: UUID) -> bytes:
    """DER. Raises AuthorityNotFound."""
    query = select(CertificateAuthority.certificate_der).where(CertificateAuthority.id == authority_id)
    der = session.scalar(query)
    if der is None:
        raise AuthorityNotFound("There is no such certificate authority.", place="authority")
    return der


def locations(public_url: str, authority_id: UUID) -> Locations:
    """Where anybody finds the authority's certificate and the status of what it issued."""
    return Locations(
        certificate=f"{public_url}/ca/{authority_id}.cer",
        ocsp=f"{public_url}/ocsp/{authority_id}",
        crl=f"{public_url}/crl/{authority_id}.crl",
    )
