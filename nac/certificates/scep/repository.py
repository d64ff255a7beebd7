from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.models import Certificate, ScepTransaction, ScepWebhook


def find_certificate(
    session: Session, tenant_id: TenantId, *, transaction_id: str, public_key_sha256: bytes, renews_id: UUID | None
) -> Certificate | None:
    """Return the certificate of an earlier identical request."""
    query = _certificates_of_transaction(tenant_id, transaction_id, public_key_sha256)
    return session.scalar(query.where(ScepTransaction.renews_id.is_not_distinct_from(renews_id)).limit(1))


def find_newest_certificate(
    session: Session, tenant_id: TenantId, *, transaction_id: str, public_key_sha256: bytes
) -> Certificate | None:
    """Return the last certificate of a transaction, enrolment or renewal."""
    return session.scalar(_certificates_of_transaction(tenant_id, transaction_id, public_key_sha256).limit(1))


def _certificates_of_transaction(
    tenant_id: TenantId, transaction_id: str, public_key_sha256: bytes
) -> Select[Certificate]:
    query = select(Certificate).join(ScepTransaction, ScepTransaction.certificate_id == Certificate.id)
    return query.where(
        ScepTransaction.tenant_id == tenant_id,
        ScepTransaction.transaction_id == transaction_id,
        Certificate.tenant_id == tenant_id,
        Certificate.public_key_sha256 == public_key_sha256,
    ).order_by(ScepTransaction.created_at.desc())


def get_webhook(session: Session, tenant_id: TenantId, *, lock: bool = False) -> ScepWebhook | None:
    query = select(ScepWebhook).where(ScepWebhook.tenant_id == tenant_id)
    return session.scalar(query.with_for_update() if lock else query)
