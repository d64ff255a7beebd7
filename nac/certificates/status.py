"""What follows from a change of status: the one place that those who change one must call."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.models import AuthorityIntent, Certificate, CertificateAuthority, RevocationWork
from pki.revocation import REVOCATION_REASONS, Revocation

# PostgreSQL tells it to who keeps answers about status, after the commit; the payload is an authority's id.
CHANNEL = "certificate_status"


def status_changed(session: Session, *rows: Certificate | CertificateAuthority | AuthorityIntent) -> None:
    """To be called in the transaction that changed the status of `rows`, in the tenant's scope: of any number at once.

    An AuthorityIntent stands for a cross-certificate. After the commit nobody is given an older OCSP answer, and the
    worker makes the authorities' lists anew.
    """
    lists = {
        issuer: row.tenant_id
        for row in rows
        if (issuer := row.authority_id if isinstance(row, Certificate) else row.issuer_id) is not None
    }
    session.add_all(RevocationWork(tenant_id=tenant_id, authority_id=issuer) for issuer, tenant_id in lists.items())
    session.flush()
    # Nothing that a revoked authority issued is good.
    concerned = lists.keys() | {row.id for row in rows if isinstance(row, CertificateAuthority)}
    for authority_id in sorted(concerned):
        session.execute(select(func.pg_notify(CHANNEL, str(authority_id))))


def revocation(at: datetime, reason: str) -> Revocation:
    """As lists and answers name it; a reason that they do not know stays unsaid."""
    return Revocation(at, reason if reason in REVOCATION_REASONS else "unspecified")
