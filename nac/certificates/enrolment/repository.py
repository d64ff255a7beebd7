from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, LargeBinary, Select, Uuid, column, func, or_, select
from sqlalchemy.orm import Session

from nac.kit.db.queries import in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import Certificate, Endpoint, EnrolmentSecret, User

ORDERS = SortOrders(
    {
        "public_id": (EnrolmentSecret.public_id,),
        "name": (EnrolmentSecret.name, EnrolmentSecret.public_id),
        "created_at": (EnrolmentSecret.created_at, EnrolmentSecret.public_id),
        "expires_at": (EnrolmentSecret.expires_at, EnrolmentSecret.public_id),
        "last_used_at": (EnrolmentSecret.last_used_at, EnrolmentSecret.public_id),
    }
)


def lock_by_name(session: Session, tenant_id: TenantId, name: str) -> EnrolmentSecret | None:
    """Return and lock the secret with the public id or name `name`.

    A concurrent redemption waits for the lock and then sees the new number of uses.
    """
    query = _by_name_query(tenant_id, name).with_for_update().execution_options(populate_existing=True)
    return session.scalar(query.limit(1))


def get_by_name(session: Session, tenant_id: TenantId, name: str) -> EnrolmentSecret | None:
    return session.scalar(_by_name_query(tenant_id, name).limit(1))


def get_by_public_id(session: Session, public_id: str) -> EnrolmentSecret | None:
    """Return the secret with this public id. Requires a session in EnrolmentScope, because the tenant is unknown."""
    return session.scalar(select(EnrolmentSecret).where(EnrolmentSecret.public_id == public_id))


def list_page(session: Session, tenant_id: TenantId, *, span: PageSpan) -> Sequence[EnrolmentSecret]:
    return session.scalars(span.of(select(EnrolmentSecret).where(EnrolmentSecret.tenant_id == tenant_id))).all()


def find_issued_with_secret(
    session: Session, secret: EnrolmentSecret, *, public_key_sha256: bytes, since: datetime
) -> Certificate | None:
    """Lock and return the certificate for this key that Admit issued with `secret`, or that Admit is still signing."""
    which = Certificate.secret_id == secret.id
    return session.scalar(_issued_query(secret.tenant_id, public_key_sha256, since, which))


def find_issued_to_renew(
    session: Session, old: Certificate, *, public_key_sha256: bytes, since: datetime
) -> Certificate | None:
    """Lock and return the renewal of `old` for this key that Admit issued, or that Admit is still signing."""
    which = Certificate.renews_id == old.id
    return session.scalar(_issued_query(old.tenant_id, public_key_sha256, since, which))


def _issued_query(
    tenant_id: TenantId, public_key_sha256: bytes, since: datetime, which: ColumnElement[bool]
) -> Select[Certificate]:
    row = Certificate
    query = select(row).where(
        row.tenant_id == tenant_id,
        row.public_key_sha256 == public_key_sha256,
        row.status.in_(("intended", "valid")),
        row.created_at >= since,
        which,
    )
    # The query waits until a running signature is complete, because the signing process locks the row.
    return query.order_by(row.created_at.desc()).limit(1).with_for_update().execution_options(populate_existing=True)


def get_endpoint(session: Session, tenant_id: TenantId, endpoint_id: object) -> Endpoint | None:
    return session.scalar(select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.id == endpoint_id))


def get_user(session: Session, tenant_id: TenantId, user_id: object) -> User | None:
    return session.scalar(select(User).where(User.tenant_id == tenant_id, User.id == user_id))


def list_unknown_authorities(session: Session, known: Collection[UUID]) -> Sequence[tuple[UUID, bytes]]:
    """Return id and certificate (DER) of all tenants' authorities, except the ids `known`. Works in any scope."""
    found = func.enrolment_authorities().table_valued(column("id", Uuid), column("certificate_der", LargeBinary))
    query = select(found.c.id, found.c.certificate_der).where(~in_array(found.c.id, known))
    return [(row.id, row.certificate_der) for row in session.execute(query)]


def _by_name_query(tenant_id: TenantId, name: str) -> Select[EnrolmentSecret]:
    secret = EnrolmentSecret
    query = select(secret).where(secret.tenant_id == tenant_id, or_(secret.public_id == name, secret.name == name))
    # If one secret has this public id, and another secret has this name, the public id wins.
    return query.order_by((secret.public_id == name).desc())
