"""Renewal of the server certificate that a cell presents, in good time and under the same names.

The new one is issued when a third of the old one's life is left, at most 45 days before its end, and presented after a
third of that rest. So both are valid for weeks, and administrators who pin a server certificate have time.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from cryptography import x509
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.certificates import repository
from nac.certificates.errors import CertificateStatusConflict
from nac.certificates.issuing import SERVER_PROFILE, Reservation, reserve_server, sign_server
from nac.certificates.naming import default_server_name
from nac.certificates.signing import Signing
from nac.db import commit_intent
from nac.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Tenant
from pki.names import sans_of

_LEAD_MOST = timedelta(days=45)
# A certificate that would gain less is not worth a change.
_GAIN_LEAST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RenewalPlan:
    reservation: Reservation
    # Hex digits; "" where there was none.
    succeeds: str
    present_from: datetime


def lead(not_before: datetime, not_after: datetime) -> timedelta:
    """How long before its end a server certificate is renewed."""
    return min(_LEAD_MOST, (not_after - not_before) / 3)


def server_names(session: Session, tenant_id: TenantId) -> list[str]:
    """What devices expect: the names of the last server certificate, even if that is revoked."""
    last = repository.newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True)
    if last is None or last.certificate_der is None:
        return [default_server_name(session.get_one(Tenant, tenant_id))]
    return [item.value for item in sans_of(x509.load_der_x509_certificate(last.certificate_der))]


def plan_renewal(
    session: Session, *, actor: str, tenant_id: TenantId, signing: Signing, now: datetime
) -> RenewalPlan | None:
    """Reserve the next server certificate; None where that is not due or the issuing authority ends as soon."""
    repository.lock_tenant(session, tenant_id)
    old = repository.newest_server(session, tenant_id, SERVER_PROFILE)
    authority = repository.active_issuing(session, tenant_id)
    if authority is None or (old is None and _had_one(session, tenant_id)):
        return None
    present_from = now
    if old is not None and _root_of(session, old.authority_id) == authority.issuer_id:
        wait = lead(old.not_before, old.not_after)
        if old.not_after - now > wait or authority.not_after < max(now, old.not_after) + _GAIN_LEAST:
            return None
        staged = now + wait / 3
        present_from = staged if staged < old.not_after else now
    # Else somebody made the authorities and did not come to the server's certificate: it is missing now.
    names = server_names(session, tenant_id)
    reservation = reserve_server(session, actor=actor, tenant_id=tenant_id, dns_names=names, signing=signing, now=now)
    return RenewalPlan(reservation, old.serial.hex() if old else "", present_from)


def _had_one(session: Session, tenant_id: TenantId) -> bool:
    """Then somebody revoked it, and knows why there is none."""
    return repository.newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True) is not None


def _root_of(session: Session, authority_id: UUID) -> UUID | None:
    return session.get_one(CertificateAuthority, authority_id).issuer_id


def carry_out(session: Session, plan: RenewalPlan, *, actor: str, signing: Signing, now: datetime) -> Certificate:
    """Raises CertificateStatusConflict where somebody else was quicker."""
    tenant_id = plan.reservation.tenant_id
    commit_intent(session)
    repository.lock_tenant(session, tenant_id)
    newest = repository.newest_server(session, tenant_id, SERVER_PROFILE)
    if (newest.serial.hex() if newest else "") != plan.succeeds:
        raise CertificateStatusConflict("The server certificate has a successor already.", place="serial")
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


def present_now(session: Session, *, actor: str, tenant_id: TenantId, serial: bytes, now: datetime) -> Certificate:
    """The cell shows this server certificate from now on, where no newer one is shown."""
    row = repository.get_by_serial(session, tenant_id, serial, lock=True)
    if row is None or row.profile != SERVER_PROFILE or row.status != "valid" or row.key_sealed is None:
        raise CertificateStatusConflict("This is no valid server certificate.", place="serial")
    before, row.present_from = row.present_from, now
    session.flush()
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
