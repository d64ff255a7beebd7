"""Publication of certificate status changes. All code that changes a status must call `record_status_change`."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.models import AuthorityIntent, Certificate, CertificateAuthority, RevocationWork
from pki.crl import REVOCATION_REASONS, Revocation

# Notification channel of PostgreSQL for processes that cache statuses. The payload is the authority's id.
STATUS_CHANNEL = "certificate_status"


def record_status_change(session: Session, *rows: Certificate | CertificateAuthority | AuthorityIntent) -> None:
    """Publish the status changes of `rows`. Call this function in the changes' transaction, in the tenant's scope.

    After the commit, OCSP responders drop cached statuses, and the worker signs new revocation lists. An
    AuthorityIntent in `rows` stands for its cross-certificate.
    """
    lists = {
        issuer: row.tenant_id
        for row in rows
        if (issuer := row.authority_id if isinstance(row, Certificate) else row.issuer_id) is not None
    }
    session.add_all(RevocationWork(tenant_id=tenant_id, authority_id=issuer) for issuer, tenant_id in lists.items())
    session.flush()
    # A revoked authority changes the status of all certificates that it issued.
    concerned = lists.keys() | {row.id for row in rows if isinstance(row, CertificateAuthority)}
    for authority_id in sorted(concerned):
        session.execute(select(func.pg_notify(STATUS_CHANNEL, str(authority_id))))


def build_revocation(at: datetime, reason: str) -> Revocation:
    """Return the revocation in the form for revocation lists and OCSP. An unknown reason becomes `unspecified`."""
    return Revocation(at, reason if reason in REVOCATION_REASONS else "unspecified")
