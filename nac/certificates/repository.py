from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.errors import NotFound
from nac.ids import TenantId
from nac.models import AuthorityIntent, Certificate, CertificateAuthority, Tenant


def lock_tenant(session: Session, tenant_id: TenantId) -> Tenant:
    """One at a time makes authorities for a tenant. Raises NotFound."""
    tenant = session.scalar(select(Tenant).where(Tenant.id == tenant_id).with_for_update())
    if tenant is None:
        raise NotFound("There is no such tenant.", place="tenant")
    return tenant


def share_tenant(session: Session, tenant_id: TenantId) -> None:
    """Any number issue at a time, and nobody in `lock_tenant` meanwhile: what is read after this stays as it is.

    To be called before anything else of the tenant is locked, as those who lock it do, or each waits for the other.
    """
    session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(read=True, key_share=True))


def get_by_serial(session: Session, tenant_id: TenantId, serial: bytes, *, lock: bool = False) -> Certificate | None:
    query = select(Certificate).where(Certificate.tenant_id == tenant_id, Certificate.serial == serial)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalar(query)


def lock_with_authority(
    session: Session, tenant_id: TenantId, serial: bytes
) -> tuple[Certificate, CertificateAuthority] | None:
    """A certificate, locked, and who issues it, as it is now."""
    query = (
        select(Certificate, CertificateAuthority)
        .join(CertificateAuthority, CertificateAuthority.id == Certificate.authority_id)
        .where(Certificate.tenant_id == tenant_id, Certificate.serial == serial)
        .with_for_update(of=Certificate)
        .execution_options(populate_existing=True)
    )
    found = session.execute(query).one_or_none()
    return None if found is None else (found[0], found[1])


def list_renewals(session: Session, certificate: Certificate, *, lock: bool = False) -> Sequence[Certificate]:
    """What directly renewed it, oldest first."""
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


def is_certified(session: Session, tenant_id: TenantId, public_key_sha256: bytes) -> bool:
    """Whether a certificate holds this key, or is to. Until the transaction ends, nobody else asks for the same key."""
    session.execute(select(func.pg_advisory_xact_lock(int.from_bytes(public_key_sha256[:8], signed=True))))
    query = select(Certificate.id).where(
        Certificate.tenant_id == tenant_id,
        Certificate.public_key_sha256 == public_key_sha256,
        Certificate.status != "abandoned",
    )
    return session.scalar(query.limit(1)) is not None


def list_page(
    session: Session, tenant_id: TenantId, *, status: str, profile: str, name: str, after_serial: bytes, limit: int
) -> Sequence[Certificate]:
    query = select(Certificate).where(Certificate.tenant_id == tenant_id, Certificate.serial > after_serial)
    if status:
        query = query.where(Certificate.status == status)
    if profile:
        query = query.where(Certificate.profile == profile)
    if name:
        query = query.where(Certificate.common_name.startswith(name, autoescape=True))
    return session.scalars(query.order_by(Certificate.serial).limit(limit)).all()


def list_authorities(session: Session, tenant_id: TenantId) -> Sequence[CertificateAuthority]:
    """Roots first; of each kind the newest first."""
    authority = CertificateAuthority
    query = select(authority).where(authority.tenant_id == tenant_id)
    return session.scalars(query.order_by(authority.kind.desc(), authority.not_before.desc(), authority.id)).all()


def active_issuing(session: Session, tenant_id: TenantId) -> CertificateAuthority | None:
    """The newest issuing authority whose key is here."""
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id,
        authority.kind == "issuing",
        authority.status == "active",
        authority.key_sealed.is_not(None),
    )
    return session.scalar(query.order_by(authority.not_before.desc(), authority.id).limit(1))


def get_authority(session: Session, tenant_id: TenantId, authority_id: UUID) -> CertificateAuthority | None:
    """Without a query where the session has read it before."""
    authority = session.get(CertificateAuthority, authority_id)
    return authority if authority is not None and authority.tenant_id == tenant_id else None


def lock_intent(session: Session, tenant_id: TenantId, intent_id: UUID) -> AuthorityIntent | None:
    query = select(AuthorityIntent).where(AuthorityIntent.tenant_id == tenant_id, AuthorityIntent.id == intent_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def newest_root(session: Session, tenant_id: TenantId) -> CertificateAuthority | None:
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id, authority.kind == "root", authority.status == "active"
    )
    return session.scalar(query.order_by(authority.not_before.desc(), authority.id).limit(1))


def own_authorities(session: Session, tenant_id: TenantId, *, status: str) -> Sequence[CertificateAuthority]:
    """Without those of others that the tenant trusts."""
    authority = CertificateAuthority
    query = select(authority).where(
        authority.tenant_id == tenant_id, authority.kind != "external", authority.status == status
    )
    return session.scalars(query.order_by(authority.not_before, authority.id).with_for_update()).all()


def newest_server(
    session: Session, tenant_id: TenantId, profile: str, *, even_revoked: bool = False
) -> Certificate | None:
    """The certificate that is, or will be, presented last: its key is here."""
    query = select(Certificate).where(
        Certificate.tenant_id == tenant_id, Certificate.profile == profile, Certificate.key_sealed.is_not(None)
    )
    if not even_revoked:
        query = query.where(Certificate.status == "valid")
    return session.scalar(query.order_by(Certificate.not_before.desc(), Certificate.created_at.desc()).limit(1))


def usable_of_profile(session: Session, tenant_id: TenantId, profile: str, now: datetime) -> Sequence[Certificate]:
    """Valid ones whose key is here, the newest first."""
    query = select(Certificate).where(
        Certificate.tenant_id == tenant_id,
        Certificate.profile == profile,
        Certificate.status == "valid",
        Certificate.key_sealed.is_not(None),
        Certificate.not_after > now,
    )
    return session.scalars(query.order_by(Certificate.not_before.desc(), Certificate.serial)).all()
