from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    LargeBinary,
    Table,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    select,
    type_coerce,
    update,
)
from sqlalchemy.orm import Session, aliased

from nac.cellformat.self_test_ticket import SELF_TEST_PROFILE
from nac.kit.db.queries import BoundedPage, contains_text, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, Certificate, CertificateAuthority, CertificateSettings, Tenant

# Each order has an index, because a tenant can have hundreds of thousands of certificates.
ORDERS = SortOrders(
    {
        "serial": (Certificate.serial,),
        "name": (Certificate.common_name_key, Certificate.serial),
        "not_before": (Certificate.not_before, Certificate.serial),
        "not_after": (Certificate.not_after, Certificate.serial),
    }
)
AUTHORITY_ORDERS = SortOrders(
    {
        "not_before": (CertificateAuthority.not_before, CertificateAuthority.id),
        "not_after": (CertificateAuthority.not_after, CertificateAuthority.id),
        "name": (CertificateAuthority.name, CertificateAuthority.id),
    },
    default="-not_before",
)


def lock_tenant(session: Session, tenant_id: TenantId) -> Tenant:
    """Return the tenant, locked exclusively for the creation or revocation of authorities. Raises NotFound."""
    # An advisory lock, because PostgreSQL grants advisory locks in the order of the requests. PostgreSQL grants shared
    # row locks even while an exclusive row lock waits, so steady enrolments would block a revocation forever.
    session.execute(select(func.pg_advisory_xact_lock(*_tenant_lock(tenant_id))))
    tenant = session.scalar(select(Tenant).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    if tenant is None:
        raise NotFound("The tenant does not exist.", place="tenant")
    return tenant


_SHARE_TENANT = select(Tenant.id).where(Tenant.id == bindparam("tenant_id")).with_for_update(read=True, key_share=True)
_LOCK_KEY = select(func.pg_advisory_xact_lock(bindparam("key", type_=BigInteger)))
_KEY_HOLDER = (
    select(Certificate.id)
    .where(
        Certificate.tenant_id == bindparam("tenant_id"),
        Certificate.public_key_sha256 == bindparam("digest"),
        Certificate.status != "abandoned",
    )
    .limit(1)
)
_ROOT = aliased(CertificateAuthority)
# Unexpired certificates of RADIUS servers. The SQL contains the profile as a literal, so PostgreSQL uses the partial
# index.
_SERVER_CERTIFICATES = select(Certificate.certificate_der).where(
    Certificate.tenant_id == bindparam("tenant_id"),
    Certificate.profile == literal_column("'eap-server'"),
    Certificate.not_after > bindparam("now"),
    Certificate.certificate_der.is_not(None),
)
_SIGNER = (
    select(
        CertificateAuthority,
        _ROOT.certificate_der,
        CertificateSettings.profiles,
        type_coerce(func.array(_SERVER_CERTIFICATES.scalar_subquery()), ARRAY(LargeBinary)),
    )
    .join(_ROOT, _ROOT.id == CertificateAuthority.issuer_id)
    .outerjoin(CertificateSettings, CertificateSettings.tenant_id == CertificateAuthority.tenant_id)
    .where(
        CertificateAuthority.tenant_id == bindparam("tenant_id"),
        CertificateAuthority.kind == "issuing",
        CertificateAuthority.status == "active",
        CertificateAuthority.key_sealed.is_not(None),
    )
    .order_by(CertificateAuthority.not_before.desc(), CertificateAuthority.id)
    .limit(1)
)
_LOCK_INTENT = (
    select(Certificate, CertificateAuthority.status, CertificateAuthority.key_sealed.is_not(None).label("has_key"))
    .join(CertificateAuthority, CertificateAuthority.id == Certificate.authority_id)
    .where(Certificate.tenant_id == bindparam("tenant_id"), Certificate.serial == bindparam("serial"))
    .with_for_update(of=Certificate)
)
_INSERT_CERTIFICATE = insert(cast(Table, Certificate.__table__)).inline()


class TenantSigner(NamedTuple):
    """The authority that signs for a tenant, with the data that every signature needs."""

    authority: CertificateAuthority
    root_der: bytes
    # The tenant's overrides of certificate profiles, by profile name.
    profiles: Mapping[str, Mapping[str, Any]]
    # Certificates of the tenant's RADIUS servers.
    servers: Sequence[bytes]


class LockedIntent(NamedTuple):
    row: Certificate
    # Whether the authority can sign: it is active, and Admit stores its key.
    authority_signs: bool


def lock_tenant_shared(session: Session, tenant_id: TenantId) -> None:
    """Lock the tenant for the issue of a certificate. Until the transaction ends, calls of `lock_tenant` wait. Other
    transactions can issue certificates at the same time.

    To avoid deadlocks, call `lock_tenant_shared` before you lock any row of the tenant.
    """
    session.execute(select(func.pg_advisory_xact_lock_shared(*_tenant_lock(tenant_id))))
    # Lock the tenant's row, so that it cannot be deleted meanwhile.
    session.execute(_SHARE_TENANT, {"tenant_id": tenant_id})


def _tenant_lock(tenant_id: TenantId) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return func.hashtext("certificates"), func.hashtext(str(tenant_id))


def get_by_serial(session: Session, tenant_id: TenantId, serial: bytes, *, lock: bool = False) -> Certificate | None:
    query = select(Certificate).where(Certificate.tenant_id == tenant_id, Certificate.serial == serial)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalar(query)


def get_signer(session: Session, tenant_id: TenantId, now: datetime) -> TenantSigner | None:
    """Return the tenant's newest active issuing authority whose key Admit stores, with the data for signatures."""
    signer = session.execute(_SIGNER, {"tenant_id": tenant_id, "now": now}).one_or_none()
    return None if signer is None else TenantSigner(signer[0], signer[1], signer[2] or {}, signer[3])


def list_server_certificates(session: Session, tenant_id: TenantId, now: datetime) -> Sequence[bytes]:
    """Return unexpired certificates of the tenant's RADIUS servers as DER, including revoked certificates."""
    return [
        der for der in session.scalars(_SERVER_CERTIFICATES, {"tenant_id": tenant_id, "now": now}) if der is not None
    ]


def create_intent(session: Session, values: Mapping[str, Any]) -> None:
    """Insert a Certificate row with the status `intended`. The database rejects invalid references."""
    session.execute(_INSERT_CERTIFICATE, values)


def lock_intent(session: Session, tenant_id: TenantId, serial: bytes) -> LockedIntent | None:
    parameters, options = {"tenant_id": tenant_id, "serial": serial}, {"populate_existing": True}
    intent = session.execute(_LOCK_INTENT, parameters, execution_options=options).one_or_none()
    return None if intent is None else LockedIntent(intent[0], intent[1] == "active" and intent[2])


def list_renewals(session: Session, certificate: Certificate, *, lock: bool = False) -> Sequence[Certificate]:
    """Return the direct renewals of `certificate`, oldest first."""
    query = (
        select(Certificate)
        .where(
            Certificate.tenant_id == certificate.tenant_id,
            Certificate.renews_id == certificate.id,
            Certificate.status.in_(("valid", "suspended", "revoked")),
        )
        .order_by(Certificate.created_at, Certificate.id)
    )
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalars(query).all()


def is_key_certified(session: Session, tenant_id: TenantId, public_key_sha256: bytes) -> bool:
    """Whether a signed or unsigned certificate of the tenant has this key. Locks the key until the transaction ends."""
    session.execute(_LOCK_KEY, {"key": int.from_bytes(public_key_sha256[:8], signed=True)})
    return session.scalar(_KEY_HOLDER, {"tenant_id": tenant_id, "digest": public_key_sha256}) is not None


def search_certificates(
    session: Session,
    tenant_id: TenantId,
    *,
    status: str,
    profile: str,
    name: str,
    which: ColumnElement[bool] | None,
    span: PageSpan,
    in_full: bool = False,
) -> BoundedPage[Certificate]:
    def filters(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- certificates, or an alias of them
        conditions = [each.profile == profile if profile else each.profile != SELF_TEST_PROFILE]
        if status:
            conditions.append(each.status == status)
        if name:
            conditions.append(each.common_name.startswith(name, autoescape=True))
        return conditions

    whose = [Certificate.tenant_id == tenant_id]
    if which is None and not (status or profile or name):
        # Without filters every row matches, so the search finds a page quickly.
        return search_bounded(session, Certificate, [*whose, *filters(Certificate)], lambda _: (), span)
    if which is not None:
        # One holder has few certificates, so a full search is fast.
        query = select(Certificate).where(*whose, which, *filters(Certificate))
        return BoundedPage(session.scalars(span.of(query)).all(), None)
    return search_bounded(session, Certificate, whose, filters, span, in_full=in_full)


def list_authorities(session: Session, tenant_id: TenantId) -> Sequence[CertificateAuthority]:
    """List all authorities of the tenant: roots first, then by kind. Within a kind, the newest authority is first."""
    authority = CertificateAuthority
    query = select(authority).where(authority.tenant_id == tenant_id)
    return session.scalars(query.order_by(authority.kind.desc(), authority.not_before.desc(), authority.id)).all()


def list_authority_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, kind: str, status: str
) -> Sequence[CertificateAuthority]:
    authority = CertificateAuthority
    query = select(authority).where(authority.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, authority.name, authority.subject))
    if kind:
        query = query.where(authority.kind == kind)
    if status:
        query = query.where(authority.status == status)
    return session.scalars(span.of(query)).all()


def get_active_issuing(session: Session, tenant_id: TenantId) -> CertificateAuthority | None:
    """Return the tenant's newest active issuing authority whose key Admit stores."""
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id,
        authority.kind == "issuing",
        authority.status == "active",
        authority.key_sealed.is_not(None),
    )
    return session.scalar(query.order_by(authority.not_before.desc(), authority.id).limit(1))


def get_authority(session: Session, tenant_id: TenantId, authority_id: UUID) -> CertificateAuthority | None:
    """Return the authority, or None. Does not query the database if the session has already loaded the authority."""
    authority = session.get(CertificateAuthority, authority_id)
    return authority if authority is not None and authority.tenant_id == tenant_id else None


def lock_authority_intent(session: Session, tenant_id: TenantId, intent_id: UUID) -> AuthorityIntent | None:
    query = select(AuthorityIntent).where(AuthorityIntent.tenant_id == tenant_id, AuthorityIntent.id == intent_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def require_cross_intent(session: Session, tenant_id: TenantId, serial: bytes) -> AuthorityIntent:
    """Return the row that recorded, before the signature, the cross-certificate with this serial number."""
    intent = AuthorityIntent
    query = select(intent).where(intent.tenant_id == tenant_id, intent.kind == "cross", intent.serial == serial)
    return session.scalars(query).one()


def get_newest_root(session: Session, tenant_id: TenantId) -> CertificateAuthority | None:
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id, authority.kind == "root", authority.status == "active"
    )
    return session.scalar(query.order_by(authority.not_before.desc(), authority.id).limit(1))


def lock_own_authorities(session: Session, tenant_id: TenantId, *, status: str) -> Sequence[CertificateAuthority]:
    """Return and lock the authorities with this status that Admit created for the tenant."""
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id, authority.kind != "external", authority.status == status
    )
    return session.scalars(query.order_by(authority.not_before, authority.id).with_for_update()).all()


def has_own_authorities(session: Session, tenant_id: TenantId) -> bool:
    """Whether Admit ever created authorities for the tenant, including authorities that are now retired or revoked."""
    own = CertificateAuthority
    return bool(session.scalar(select(exists().where(own.tenant_id == tenant_id, own.kind != "external"))))


def list_requested_server_names(session: Session, tenant_id: TenantId) -> Sequence[str]:
    """Return the DNS names for the server certificate, as requested when authorities were last created."""
    intent = AuthorityIntent
    query = select(intent.server_names).where(intent.tenant_id == tenant_id, func.cardinality(intent.server_names) > 0)
    return session.scalar(query.order_by(intent.created_at.desc()).limit(1)) or ()


def has_abandoned_setup(session: Session, tenant_id: TenantId) -> bool:
    """Whether the tenant has no authorities because Admit abandoned the attempt to create them."""
    own, begun = CertificateAuthority, AuthorityIntent
    intended = exists().where(begun.tenant_id == tenant_id, begun.signed_at.is_(None))
    made = exists().where(own.tenant_id == tenant_id, own.kind != "external")
    return bool(
        session.scalar(
            select(
                and_(
                    ~made,
                    intended.where(begun.abandoned_at.is_not(None)),
                    ~intended.where(begun.abandoned_at.is_(None)),
                )
            )
        )
    )


def get_newest_server(
    session: Session, tenant_id: TenantId, profile: str, *, even_revoked: bool = False
) -> Certificate | None:
    """Return the server certificate that the cell presents from the latest time, even if this time is in the future.

    Ignores certificates whose key Admit does not store. The replica orders server certificates by the same rule.
    """
    query = select(Certificate).where(
        Certificate.tenant_id == tenant_id, Certificate.profile == profile, Certificate.key_sealed.is_not(None)
    )
    if not even_revoked:
        query = query.where(Certificate.status == "valid")
    shown_from = func.coalesce(Certificate.present_from, Certificate.not_before)
    order = shown_from.desc(), Certificate.not_before.desc(), Certificate.created_at.desc()
    return session.scalar(query.order_by(*order).limit(1))


def present_server(session: Session, server: Certificate, moment: datetime) -> None:
    """Make the cell present the server certificate from `moment` on, and cancel all later presentations of other
    certificates."""
    server.present_from = moment
    session.flush()
    later = update(Certificate).where(
        Certificate.tenant_id == server.tenant_id,
        Certificate.profile == server.profile,
        Certificate.present_from > moment,
    )
    session.execute(later.values(present_from=None))


def list_usable_by_profile(session: Session, tenant_id: TenantId, profile: str, now: datetime) -> Sequence[Certificate]:
    """Return the tenant's valid certificates of the profile whose key Admit stores, newest first."""
    query = select(Certificate).where(
        Certificate.tenant_id == tenant_id,
        Certificate.profile == profile,
        Certificate.status == "valid",
        Certificate.key_sealed.is_not(None),
        Certificate.not_after > now,
    )
    return session.scalars(query.order_by(Certificate.not_before.desc(), Certificate.serial)).all()
