"""Automatic renewal of a tenant's EAP server certificate, with the same names.

Admit issues a new certificate when a third of the old certificate's validity is left, but at most 45 days before the
old certificate expires. The cell presents the new certificate after a third of the remaining time. Until then,
administrators can install the new certificate on devices that pin the server certificate.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.authorities import first_server_names
from nac.certificates.certificate_names import SERVER_PROFILE
from nac.certificates.errors import CertificateStatusConflict
from nac.certificates.issuance import CertificateReservation, get_dns_names, reserve_server, sign_server
from nac.certificates.signing import SigningContext
from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db import commit_intent
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Tenant

_MAX_LEAD = timedelta(days=45)
# Minimum time by which a renewal must extend the validity.
_MIN_GAIN = timedelta(hours=1)
_NOT_SERVER_DETAIL = "The certificate is not a valid EAP server certificate."
_ISSUE_REMEDY = Advice("Issue another server certificate.", "issueServerCertificate")


@dataclass(frozen=True, slots=True)
class ServerRenewalPlan:
    reservation: CertificateReservation
    # Serial number of the old certificate in hexadecimal; "" if the tenant had no certificate.
    succeeds: str
    present_from: datetime


def renewal_lead(not_before: datetime, not_after: datetime) -> timedelta:
    """Return how long before its expiry Admit renews a server certificate."""
    return min(_MAX_LEAD, (not_after - not_before) / 3)


def expected_server_names(session: Session, tenant_id: TenantId) -> list[str]:
    """Return the DNS names that devices expect: the names of the last server certificate, even if it is revoked."""
    last = repository.get_newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True)
    return get_dns_names(last) if last else list(first_server_names(session, session.get_one(Tenant, tenant_id)))


def plan_renewal(
    session: Session, *, actor: str, tenant_id: TenantId, signing: SigningContext, now: datetime
) -> ServerRenewalPlan | None:
    """Reserve the tenant's next server certificate.

    Returns None if a renewal is not due, would not extend the validity, or needs an administrator's decision.
    """
    repository.lock_tenant(session, tenant_id)
    old = repository.get_newest_server(session, tenant_id, SERVER_PROFILE)
    authority = repository.get_active_issuing(session, tenant_id)
    if authority is None or (old is None and _had_server(session, tenant_id)):
        return None
    present_from = now
    root = _get_root(session, authority)
    if old is not None and root.id == _get_root(session, session.get_one(CertificateAuthority, old.authority_id)).id:
        wait = renewal_lead(old.not_before, old.not_after)
        if old.not_after - now > wait or authority.not_after < max(now, old.not_after) + _MIN_GAIN:
            return None
        staged = now + wait / 3
        present_from = staged if staged < old.not_after else now
    elif old is not None and root.cross_der is None:
        # Devices that trust only the old root would reject the new certificate. So an administrator decides the time.
        return None
    # If `old` is None here, the creation of the authorities was interrupted.
    names = expected_server_names(session, tenant_id)
    reservation = reserve_server(session, actor=actor, tenant_id=tenant_id, dns_names=names, signing=signing, now=now)
    return ServerRenewalPlan(reservation, old.serial.hex() if old else "", present_from)


def _had_server(session: Session, tenant_id: TenantId) -> bool:
    """Whether the tenant ever had a server certificate. If none is valid now, an administrator revoked the last one."""
    return repository.get_newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True) is not None


def _get_root(session: Session, issuing: CertificateAuthority) -> CertificateAuthority:
    return session.get_one(CertificateAuthority, issuing.issuer_id)


def execute_renewal(
    session: Session, plan: ServerRenewalPlan, *, actor: str, signing: SigningContext, now: datetime
) -> Certificate:
    """Sign a planned renewal. Raises CertificateStatusConflict if another process completed the renewal first."""
    tenant_id = plan.reservation.tenant_id
    commit_intent(session)
    repository.lock_tenant(session, tenant_id)
    newest = repository.get_newest_server(session, tenant_id, SERVER_PROFILE)
    if (newest.serial.hex() if newest else "") != plan.succeeds:
        raise CertificateStatusConflict("The server certificate already has a successor.", place="serial")
    row = sign_server(session, plan.reservation, actor=actor, signing=signing, now=now, present_from=plan.present_from)
    audit.append(
        session,
        actor=actor,
        action="certificate.renew",
        target=row.serial.hex(),
        tenant_id=row.tenant_id,
        after={"succeeds": plan.succeeds, "present_from": plan.present_from.isoformat()},
    )
    return row


def lock_server_certificate(session: Session, *, tenant_id: TenantId, serial: bytes) -> Certificate:
    """Return and lock a server certificate.

    Until the transaction ends, no other transaction can select the certificate that the cell presents.
    """
    repository.lock_tenant(session, tenant_id)
    row = repository.get_by_serial(session, tenant_id, serial, lock=True)
    if row is None or row.profile != SERVER_PROFILE:
        raise CertificateStatusConflict(_NOT_SERVER_DETAIL, place="serial")
    return row


def present_server_certificate(
    session: Session, *, actor: str, tenant_id: TenantId, serial: bytes, now: datetime
) -> Certificate:
    """Present this server certificate from now on, and cancel planned presentations of other certificates."""
    row = lock_server_certificate(session, tenant_id=tenant_id, serial=serial)
    if row.status != "valid" or row.key_sealed is None:
        raise CertificateStatusConflict(_NOT_SERVER_DETAIL, place="serial")
    if row.not_after <= now:
        raise CertificateStatusConflict(
            f"The certificate expired on {row.not_after:%Y-%m-%d}.", place="serial", remedy=_ISSUE_REMEDY
        )
    before = row.present_from
    repository.present_server(session, row, now)
    audit.append(
        session,
        actor=actor,
        action="certificate.present",
        target=row.serial.hex(),
        tenant_id=tenant_id,
        before={"present_from": before and before.isoformat()},
        after={"present_from": now.isoformat()},
    )
    return row


@dataclass(frozen=True, slots=True)
class RemovedServerNames:
    """DNS names of the old server certificate that a new certificate lacks.

    Devices that expect one of these names reject the new certificate.
    """

    names: tuple[str, ...]
    # Serial number (hexadecimal) of the previously presented certificate.
    before: str


def get_presented_server(session: Session, *, tenant_id: TenantId) -> Certificate | None:
    """Return the certificate that the cell presents after all planned changes; without a plan, the current
    certificate."""
    return repository.get_newest_server(session, tenant_id, SERVER_PROFILE)


def find_removed_names(before: Certificate | None, after: Certificate) -> RemovedServerNames | None:
    """Return the names of `before` that `after` lacks; None if `after` has all names of `before`."""
    if before is None:
        return None
    kept = set(get_dns_names(after))
    gone = tuple(name for name in get_dns_names(before) if name not in kept)
    return RemovedServerNames(gone, before.serial.hex()) if gone else None
