"""Rollover: new authorities replace a tenant's old authorities, whose status becomes `retired`.

Certificates of retired authorities stay valid. `plan_rollover` records an intent (an unsigned authority) for each new
authority. `execute_rollover` commits the intents and signs the authorities.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.certificate_names import SERVER_PROFILE, subject_organisation
from nac.certificates.errors import AuthorityKeyAway, CertificateStatusConflict
from nac.certificates.hierarchy import (
    AuthorityReservation,
    CrossReservation,
    OwnAuthorityKind,
    cross_sign,
    generate_unique_number,
    reserve_authority,
    reserve_cross_certificate,
    sign_issuing_authority,
    sign_root,
)
from nac.certificates.issuance import CLIENT_PROFILES, issue_server
from nac.certificates.profiles import require_profile
from nac.certificates.server_renewal import expected_server_names
from nac.certificates.signing import SigningContext
from nac.core.audit import service as audit
from nac.kit.advice import Advice, NextStep
from nac.kit.db import commit_intent
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority
from pki.names import read_organisation

_MIN_GAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RolloverPlan:
    tenant_id: TenantId
    issuing: AuthorityReservation
    # The new root; None if the rollover replaces only the issuing authority.
    root: AuthorityReservation | None
    # Certificate of the new root, signed by the old root; None if there is no new root or the old root cannot sign.
    cross: CrossReservation | None
    # The issuing authority that the plan replaces; None if the tenant had none.
    succeeds: UUID | None
    # When the cell starts to present a server certificate of the new root; None means now.
    server_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class RolloverResult:
    root: CertificateAuthority
    issuing: CertificateAuthority
    retired: tuple[CertificateAuthority, ...]
    # New server certificate, for devices that trust only a new root; None if the old certificate stays in use.
    server: Certificate | None


def plan_rollover(
    session: Session,
    *,
    tenant_id: TenantId,
    signing: SigningContext,
    of_root: bool = False,
    server_from: datetime | None = None,
) -> RolloverPlan:
    """Record intents for a new issuing authority and, with `of_root`, for a new root above it.

    If the old root cannot sign the new root, set `server_from` to the time by which all devices have the new root.
    Raises AuthorityKeyAway if Admit does not store the old root's key, and Conflict if the tenant has no root.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    root = _get_last_root(session, tenant_id) if of_root else _require_root(session, tenant_id)
    if root is None:
        organisation = subject_organisation(tenant)
    else:
        organisation = read_organisation(x509.load_der_x509_certificate(root.certificate_der).subject)
    unique = generate_unique_number(tenant.slug)

    def reserve(kind: OwnAuthorityKind) -> AuthorityReservation:
        return reserve_authority(
            session, tenant_id=tenant_id, kind=kind, organisation=organisation, unique=unique, signing=signing
        )

    if root is not None and not of_root:
        # Decrypt the root's key first: if this fails, no new key exists yet.
        signing.authority_key(root)
    elif root is not None and server_from is None and root.status == "active" and root.key_sealed is None:
        raise AuthorityKeyAway(
            f"Admit does not store the key of {root.name}. Devices that trust only this root would reject the cell.",
            place="authority",
            remedy=Advice(
                "Import the key of the root. If the key is lost, set the day by which every device has the new root. "
                "The cell presents the current server certificate until that day.",
                "importRootKey",
                NextStep(parameters={"present_from": ""}),
            ),
        )
    present = repository.get_active_issuing(session, tenant_id)
    issuing, new_root = reserve("issuing"), reserve("root") if of_root else None
    cross = None
    if new_root is not None and root is not None and root.status == "active" and root.key_sealed is not None:
        cross = reserve_cross_certificate(session, tenant_id=tenant_id, new=new_root, old=root)
    succeeds = present.id if present else None
    return RolloverPlan(tenant_id, issuing, new_root, cross, succeeds, server_from)


def execute_rollover(
    session: Session, plan: RolloverPlan, *, actor: str, signing: SigningContext, now: datetime
) -> RolloverResult:
    """Sign the planned authorities and retire the previous authorities.

    If Admit stores the old root's key, the old root signs the new root. Then devices that trust only the old root also
    accept the cell, until the old root expires. Raises CertificateStatusConflict if another process completed the
    rollover first.
    """
    commit_intent(session)
    repository.lock_tenant(session, plan.tenant_id)
    present = repository.get_active_issuing(session, plan.tenant_id)
    if (present.id if present else None) != plan.succeeds:
        raise CertificateStatusConflict("The issuing authority already has a successor.", place="authority")
    retiring = [
        authority
        for authority in repository.lock_own_authorities(session, plan.tenant_id, status="active")
        if plan.root is not None or authority.kind == "issuing"
    ]
    if plan.root is None:
        root = _require_root(session, plan.tenant_id)
    else:
        old_root = _get_last_root(session, plan.tenant_id)
        root = sign_root(session, plan.root, actor=actor, now=now)
        if plan.cross is not None and old_root is not None and _can_sign(old_root, now):
            arguments: dict[str, Any] = {"tenant_id": plan.tenant_id, "signing": signing, "now": now}
            cross_sign(session, plan.cross, actor=actor, new=root, old=old_root, **arguments)
    issuing = sign_issuing_authority(session, plan.issuing, actor=actor, root=root, signing=signing, now=now)
    for authority in retiring:
        _retire(session, actor, authority)
    server = None
    # If an administrator revoked the previous authority, its server certificates are revoked, too.
    if plan.root is not None or repository.get_newest_server(session, plan.tenant_id, SERVER_PROFILE) is None:
        server = _issue_successor_server(session, actor, plan, signing, now)
    return RolloverResult(root, issuing, tuple(retiring), server)


def _can_sign(root: CertificateAuthority, now: datetime) -> bool:
    return root.status == "active" and root.key_sealed is not None and root.not_after > now


def _get_last_root(session: Session, tenant_id: TenantId) -> CertificateAuthority | None:
    """Return the active root, otherwise the newest former root; None if the tenant never had a root."""
    roots = (row for row in repository.list_authorities(session, tenant_id) if row.kind == "root")
    return repository.get_newest_root(session, tenant_id) or next(roots, None)


def _require_root(session: Session, tenant_id: TenantId) -> CertificateAuthority:
    root = repository.get_newest_root(session, tenant_id)
    if root is None:
        raise Conflict(
            "The tenant has no active root.",
            place="authority",
            remedy=Advice("Create a root.", NextStep("rollOverAuthorities", {"root": "true"})),
        )
    return root


def _retire(session: Session, actor: str, authority: CertificateAuthority) -> None:
    authority.status = "retired"
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="authority.retire",
        target=authority.name,
        tenant_id=authority.tenant_id,
        before={"status": "active"},
        after={"status": "retired", "subject": authority.subject},
    )


def _issue_successor_server(
    session: Session, actor: str, plan: RolloverPlan, signing: SigningContext, now: datetime
) -> Certificate:
    """Issue a server certificate with the new authority. The certificate has the DNS names that devices expect."""
    return issue_server(
        session,
        actor=actor,
        tenant_id=plan.tenant_id,
        dns_names=expected_server_names(session, plan.tenant_id),
        signing=signing,
        now=now,
        present_from=plan.server_from,
    )


def is_rollover_due(session: Session, *, tenant_id: TenantId, now: datetime) -> bool:
    """Whether a new client certificate with the longest validity of all profiles would outlive the issuing authority.

    False if a new issuing authority could not be valid longer than the current authority, because the root expires
    soon.
    """
    issuing = repository.get_active_issuing(session, tenant_id)
    root = repository.get_newest_root(session, tenant_id)
    if issuing is None or root is None or root.not_after <= issuing.not_after + _MIN_GAIN:
        return False
    longest = max(require_profile(session, tenant_id, name).validity for name in CLIENT_PROFILES)
    return issuing.not_after - now < longest
