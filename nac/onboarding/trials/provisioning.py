"""Creates the tenant of a confirmed sign-up.

Each step first checks whether it is already complete, so that a retry skips completed steps. All trials belong to one
MSP of the platform, and the user who signs up administers only the tenant. With an MSP of their own, users could create
more tenants, and each new tenant takes a port pair of a cell.
"""

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.certificates import repository as certificates
from nac.certificates import server_renewal
from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.signing import SigningContext
from nac.core.access.grants import Owner
from nac.core.mail import service as mail
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, enter_tenant, session_scope
from nac.kit.errors import Conflict
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel, permissions_at
from nac.models import SignUp, Trial
from nac.onboarding.provisioning import assign_standard_policy
from nac.onboarding.self_tests import service as self_tests
from nac.onboarding.trials import repository
from nac.onboarding.trials.service import ACTOR, SignUpContext
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

TRIAL_MSP_SLUG = "trials"
_ROLE = "tenant-admin"
MAX_ATTEMPTS = 20
LEASE = timedelta(minutes=2)


def provision_trial(
    sign_up_id: UUID, context: SignUpContext, *, signing: SigningContext, radius_host: str, engine: Engine | None = None
) -> str:
    """Create the sign-up's tenant with the standard policy, and start a self-test. Returns the tenant's slug."""
    with session_scope(PlatformScope(), engine=engine) as session:
        row = repository.lock_sign_up(session, sign_up_id)
        if row is None or row.state == "done":
            return row.slug if row else ""
        tenant_id = _ensure_tenant(session, row)
        slug, organisation = row.slug, row.organisation
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        has_authorities = certificates.get_active_issuing(session, tenant_id) is not None
        if not has_authorities:
            create_tenant_authorities(
                session, actor=ACTOR, tenant_id=tenant_id, signing=signing, now=utc_now(), name=organisation
            )
    if has_authorities:
        _ensure_server_certificate(tenant_id, signing, engine)
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        if sites.require_default(session, tenant_id=tenant_id).policy_id is None:
            assign_standard_policy(session, actor=ACTOR, tenant_id=tenant_id)
        _ensure_admin(session, row.email, tenant_id)
    with session_scope(PlatformScope(), engine=engine) as session:
        _finish_sign_up(session, context, sign_up_id, tenant_id, radius_host)
    return slug


def _ensure_tenant(session: Session, row: SignUp) -> TenantId:
    try:
        return tenants.require_by_slug(session, slug=row.slug).id
    except tenants.TenantNotFound:
        made = tenants.create_tenant(
            session, actor=ACTOR, slug=row.slug, name=row.organisation, msp_id=_ensure_msp(session)
        )
        return made.id


def _ensure_msp(session: Session) -> MspId:
    try:
        return msps.require_by_slug(session, slug=TRIAL_MSP_SLUG).id
    except msps.MspNotFound:
        return msps.create_msp(session, actor=ACTOR, slug=TRIAL_MSP_SLUG, name="Trials").id


def _ensure_server_certificate(tenant_id: TenantId, signing: SigningContext, engine: Engine | None) -> None:
    """Issue the server certificate if an earlier attempt ended before this step."""
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        plan = server_renewal.plan_renewal(session, actor=ACTOR, tenant_id=tenant_id, signing=signing, now=utc_now())
        if plan is not None:
            server_renewal.execute_renewal(session, plan, actor=ACTOR, signing=signing, now=utc_now())


def _ensure_admin(session: Session, email: str, tenant_id: TenantId) -> None:
    owner, held = Owner(tenant_id=tenant_id), permissions_at(PermissionLevel.TENANT)
    if any(each.person.email == email for each in members.list_members(session, owner=owner)):
        return
    members.create_member(session, actor=ACTOR, held=held, owner=owner, email=email, role=_ROLE, has_come=True)


def _finish_sign_up(
    session: Session, context: SignUpContext, sign_up_id: UUID, tenant_id: TenantId, radius_host: str
) -> None:
    row = repository.lock_sign_up(session, sign_up_id)
    if row is None or row.state == "done":
        return
    now, terms = utc_now(), context.terms
    ends_at = now + timedelta(days=terms.days)
    session.add(
        Trial(
            tenant_id=tenant_id,
            sign_up_id=row.id,
            organisation=row.organisation,
            email=row.email,
            ends_at=ends_at,
            purged_at=ends_at + timedelta(days=terms.grace_days),
            most_endpoints=terms.endpoints,
            most_authentications=terms.authentications_a_day,
        )
    )
    row.state = "done"
    session.flush()
    slot = cells.require_slot(session, tenant_id=tenant_id)
    mail.queue_mail(
        session,
        key=f"trial-ready:{tenant_id}",
        template="trial-ready",
        recipient=row.email,
        values={
            "organisation": row.organisation,
            "tenant": row.slug,
            "until": f"{ends_at:%Y-%m-%d}",
            "radius_host": cells.advertised_address(session, slot=slot, usual=radius_host),
            "auth_port": slot.auth_port,
            "acct_port": slot.acct_port,
            "portal_url": context.portal_url,
            "endpoints": terms.endpoints,
            "authentications": terms.authentications_a_day,
        },
        seal=context.seal,
    )
    # Start the self-test in this transaction, because Admit does not retry a finished sign-up. If the tenant is
    # suspended, no self-test is possible.
    enter_tenant(session, tenant_id)
    with suppress(Conflict):
        self_tests.start_self_test(session, actor=ACTOR, tenant_id=tenant_id)
