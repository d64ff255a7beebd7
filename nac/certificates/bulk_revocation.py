"""Revocation of all certificates of a device, a user or an authority, in batches within one transaction.

The module also suspends and reinstates all certificates of a device or user.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from cryptography import x509
from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from nac.certificates import intents, repository
from nac.certificates.errors import CertificateStatusConflict
from nac.certificates.service import HOLD_REASON, REVOCATION_REASONS, RevocationReason, require_authority
from nac.certificates.status_changes import record_status_change
from nac.core.audit import service as audit
from nac.inventory.endpoints.service import require_by_mac
from nac.inventory.users.service import require_by_name
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, Certificate, CertificateAuthority
from nac.sessions.coa_requests import request_queue
from pki.serials import serial_bytes

BATCH_SIZE = 1_000
# Only authorities can have the revocation reason cACompromise (RFC 5280 5.3.1).
AuthorityRevocationReason = RevocationReason | Literal["cACompromise"]
AUTHORITY_REVOCATION_REASONS: tuple[AuthorityRevocationReason, ...] = (*REVOCATION_REASONS, "cACompromise")


@dataclass(slots=True)
class RevocationResult:
    """Numbers of certificates, authorities and sessions that a bulk change affected."""

    authorities: int = 0
    certificates: int = 0
    # Number of live sessions for which Admit sends a Disconnect-Request to the NAS.
    disconnects: int = 0


class _StatusChange(NamedTuple):
    # Verb for the audit log.
    verb: str
    # The change applies to certificates with one of these statuses.
    before: tuple[str, ...]
    status: Literal["valid", "suspended", "revoked"]
    reason: str
    # Time of the revocation or suspension; None for a reinstatement.
    since: datetime | None


def issued_to_clause(
    session: Session, *, tenant_id: TenantId, mac: str | None = None, user_name: str | None = None
) -> ColumnElement[bool]:
    """Return the SQL condition that selects the certificates of the endpoint `mac` or, without `mac`, of the user.

    Raises NotFound if the endpoint or user does not exist.
    """
    if mac is not None:
        return Certificate.endpoint_id == require_by_mac(session, tenant_id=tenant_id, mac=mac).id
    return Certificate.user_id == require_by_name(session, tenant_id=tenant_id, name=user_name or "").id


def revoke_all(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    which: ColumnElement[bool],
    now: datetime,
    reason: str = "unspecified",
) -> RevocationResult:
    """Revoke certificates permanently. `which` is the SQL condition that `issued_to_clause` returns."""
    return _revoke_where(session, actor, tenant_id, which, now, _require_reason(reason))


def suspend_all(
    session: Session, *, actor: str, tenant_id: TenantId, which: ColumnElement[bool], now: datetime
) -> RevocationResult:
    """Suspend certificates until `reinstate_all`. `which` is the SQL condition that `issued_to_clause` returns."""
    return _change_where(
        session, actor, tenant_id, which, _StatusChange("suspend", ("valid",), "suspended", HOLD_REASON, now)
    )


def reinstate_all(session: Session, *, actor: str, tenant_id: TenantId, which: ColumnElement[bool]) -> RevocationResult:
    """Reinstate all suspended certificates that match `which`, including certificates that were suspended individually.

    Revoked certificates stay revoked.
    """
    return _change_where(
        session, actor, tenant_id, which, _StatusChange("reinstate", ("suspended",), "valid", "", None)
    )


def revoke_authority(
    session: Session, *, actor: str, tenant_id: TenantId, which: str, now: datetime, reason: str = "unspecified"
) -> RevocationResult:
    """Revoke an authority, all authorities below it, and all certificates of these authorities, permanently.

    If the authority is external, the tenant no longer trusts the authority.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    authority = require_authority(session, tenant_id=tenant_id, which=which)
    if authority.status == "revoked":
        raise CertificateStatusConflict(f"Authority {authority.name} is already revoked.", place="authority")
    checked = _require_reason(reason, AUTHORITY_REVOCATION_REASONS)
    rows = _with_descendants(authority, repository.list_authorities(session, tenant_id))
    for row in rows:
        row.status, row.revoked_at, row.revocation_reason = "revoked", now, checked
        audit.append(
            session,
            actor=actor,
            action="authority.revoke",
            target=row.name,
            tenant_id=tenant_id,
            after={"id": str(row.id), "subject": row.subject, "reason": checked},
        )
    # Policies reject the certificates at once. radiusd trusts the authorities until the agent restarts it.
    tenant.trust_generation += 1
    record_status_change(
        session,
        *(row for row in rows if row.kind != "external"),
        *_revoke_cross_certificates(session, rows, now, checked),
    )
    ids = [row.id for row in rows]
    done = _revoke_where(session, actor, tenant_id, Certificate.authority_id.in_(ids), now, checked)
    done.authorities = len(rows)
    return done


def _revoke_cross_certificates(
    session: Session, rows: Sequence[CertificateAuthority], now: datetime, reason: str
) -> list[AuthorityIntent]:
    """Revoke the cross-certificates of these authorities. Returns the AuthorityIntent row of each cross-certificate.

    If a cross-certificate stayed valid, devices that trust the old root would still accept certificates of the revoked
    authority.
    """
    intents_ = []
    for row in rows:
        if row.cross_der is not None:
            serial = serial_bytes(x509.load_der_x509_certificate(row.cross_der).serial_number)
            intent = repository.require_cross_intent(session, row.tenant_id, serial)
            intent.revoked_at, intent.revocation_reason = now, reason
            intents_.append(intent)
    return intents_


def _require_reason(reason: str, known: Sequence[str] = REVOCATION_REASONS) -> str:
    if reason not in known:
        raise InvalidInput(f"Unknown reason {reason!r}.", place="reason", remedy=f"Use one of: {', '.join(known)}.")
    return reason


def _with_descendants(
    authority: CertificateAuthority, rows: Sequence[CertificateAuthority]
) -> list[CertificateAuthority]:
    authorities = [authority]
    for above in authorities:
        authorities += [
            row for row in rows if row.issuer_id == above.id and row not in authorities and row.status != "revoked"
        ]
    return authorities


def _revoke_where(
    session: Session, actor: str, tenant_id: TenantId, which: ColumnElement[bool], now: datetime, reason: str
) -> RevocationResult:
    change = _StatusChange("revoke", ("valid", "suspended"), "revoked", reason, now)
    return _change_where(session, actor, tenant_id, which, change)


def _change_where(
    session: Session, actor: str, tenant_id: TenantId, which: ColumnElement[bool], change: _StatusChange
) -> RevocationResult:
    if change.since is not None:
        # Wait for running signatures, then abandon the certificates that nobody is signing.
        intents.abandon_intents(session, actor=actor, tenant_id=tenant_id, which=which, now=change.since)
    done = RevocationResult()
    authorities: dict[UUID, UUID] = {}
    query = (
        select(Certificate.id, Certificate.serial, Certificate.authority_id, Certificate.common_name)
        .where(Certificate.tenant_id == tenant_id, which, Certificate.status.in_(change.before))
        .order_by(Certificate.serial)
        .limit(BATCH_SIZE)
        .with_for_update()
    )
    while batch := session.execute(query).all():
        session.execute(
            update(Certificate)
            .where(Certificate.id.in_([row.id for row in batch]))
            .values(status=change.status, revoked_at=change.since, revocation_reason=change.reason),
            execution_options={"synchronize_session": False},
        )
        after = {"status": change.status, "reason": change.reason}
        audit.append_many(
            session,
            [
                {
                    "actor": actor,
                    "action": f"certificate.{change.verb}",
                    "target": row.serial.hex(),
                    "tenant_id": tenant_id,
                    "after": after | {"common_name": row.common_name},
                }
                for row in batch
            ],
        )
        done.certificates += len(batch)
        serials = [row.serial for row in batch]
        if change.status == "valid":
            request_queue.withdraw_for_certificates(session, tenant_id=tenant_id, serials=serials)
        else:
            done.disconnects += request_queue.queue_disconnects(
                session,
                tenant_id=tenant_id,
                serials=serials,
                reason=f"certificate-{change.status}",
                requested_by=actor,
            )
        authorities |= {row.authority_id: row.id for row in batch}
    session.expire_all()
    for one_of_each in authorities.values():
        record_status_change(session, session.get_one(Certificate, one_of_each))
    return done
