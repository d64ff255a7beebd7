"""Life cycle of trials: reminders, limits, end, deletion, conversion and extension."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.certificates.signing import SigningContext
from nac.core.audit.service import tenant_recorder
from nac.core.mail import service as mail
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import AdmitError, Conflict, DatabaseUnavailable, InvalidInput
from nac.kit.ids import TenantId
from nac.models import Tenant, Trial
from nac.onboarding.trials import repository
from nac.onboarding.trials.provisioning import LEASE, MAX_ATTEMPTS, provision_trial
from nac.onboarding.trials.service import ACTOR, SIGN_UP_RETENTION, SignUpContext, require_trial
from nac.tenancy import msps
from nac.tenancy.tenants import service as tenants

_log = logging.getLogger(__name__)
# Admit sends a reminder when this number of days is left.
REMINDER_DAYS = (7, 3, 1)
# Time between the mail about an exceeded limit and the suspension of the tenant.
OVER_GRACE = timedelta(days=1)
_DAY = timedelta(days=1)
_MAX_UNFINISHED = 10
_audit = tenant_recorder("trial")
MAX_EXTENSION_DAYS = 365


@dataclass(frozen=True, slots=True)
class TrialEnvironment:
    context: SignUpContext
    signing: SigningContext
    radius_host: str


def process_trials(environment: TrialEnvironment, *, now: datetime | None = None, engine: Engine | None = None) -> None:
    """Create tenants of confirmed sign-ups, and process all trials. The worker calls this function regularly."""
    now = now or utc_now()
    with session_scope(PlatformScope(), engine=engine) as session:
        repository.delete_sign_ups(session, before=now - SIGN_UP_RETENTION)
        unfinished = repository.take_unfinished(session, now=now, lease=LEASE, most=_MAX_UNFINISHED)
        open_trials = repository.list_open(session)
    for sign_up_id in unfinished:
        try:
            provision_trial(
                sign_up_id,
                environment.context,
                signing=environment.signing,
                radius_host=environment.radius_host,
                engine=engine,
            )
        except DatabaseUnavailable:
            raise
        except AdmitError as exc:
            _log.warning("cannot create the tenant of sign-up %s yet: %s", sign_up_id, exc)
            _fail_after_last_attempt(sign_up_id, engine)
        except Exception:  # house-rule: an error in one sign-up does not stop the others
            _log.exception("cannot create the tenant of sign-up %s", sign_up_id)
            _fail_after_last_attempt(sign_up_id, engine)
    for tenant_id in open_trials:
        try:
            process_trial(environment, tenant_id, now=now, engine=engine)
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: an error in one trial does not stop the others
            _log.exception("cannot process the trial of tenant %s", tenant_id)


def _fail_after_last_attempt(sign_up_id: UUID, engine: Engine | None) -> None:
    with session_scope(PlatformScope(), engine=engine) as session:
        row = repository.lock_sign_up(session, sign_up_id)
        if row is not None and row.attempts >= MAX_ATTEMPTS:
            row.state = "failed"


def process_trial(
    environment: TrialEnvironment, tenant_id: TenantId, *, now: datetime, engine: Engine | None = None
) -> None:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        most = require_trial(session, tenant_id=tenant_id).most_authentications
        # Count beyond the limit, so that the mail can state the real number.
        counted = repository.count_authentications(session, tenant_id, now - _DAY, most=10 * most)
    with session_scope(PlatformScope(), engine=engine) as session:
        trial = repository.get(session, tenant_id, lock=True)
        if trial is None or trial.state == "converted":
            return
        tenant = tenants.require_tenant(session, tenant_id=tenant_id)
        kept = _TrialTurn(session, environment.context, trial, tenant, now)
        if trial.state == "running":
            kept.check_end()
        if trial.state == "running":
            kept.check_limit(counted)
        if trial.state == "ended" and trial.purged_at <= now and tenant.status != "deleting":
            # Delete the tenant in the usual way, which first writes a tenant file (nac.onboarding.tenant_purge).
            tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id, purge_at=now)


class _TrialTurn:
    def __init__(self, session: Session, context: SignUpContext, trial: Trial, tenant: Tenant, now: datetime) -> None:
        self._session = session
        self._context = context
        self._trial = trial
        self._tenant = tenant
        self._now = now

    def check_end(self) -> None:
        trial, left = self._trial, self._trial.ends_at - self._now
        if left <= timedelta():
            trial.state = "ended"
            self._suspend()
            self._mail("trial-ended", "", purged=f"{trial.purged_at:%Y-%m-%d}")
            return
        due = [days for days in REMINDER_DAYS if left <= timedelta(days=days)]
        # If several reminders are due, send only the latest.
        if due and due[-1] not in trial.reminded:
            trial.reminded = [*trial.reminded, *(days for days in due if days not in trial.reminded)]
            self._mail("trial-ending", f":{due[-1]}", days=due[-1], until=f"{trial.ends_at:%Y-%m-%d}")

    def check_limit(self, counted: int) -> None:
        trial = self._trial
        if counted <= trial.most_authentications:
            trial.over_since = None
            return
        usage = {"authentications": counted, "most": trial.most_authentications}
        if trial.over_since is None:
            trial.over_since = self._now
            self._mail("trial-limit", f":{self._now:%Y-%m-%d}", **usage)
        elif self._now - trial.over_since >= OVER_GRACE and self._tenant.status == "active":
            self._suspend()
            self._mail("trial-suspended", f":{self._now:%Y-%m-%d}", **usage)

    def _suspend(self) -> None:
        if self._tenant.status == "active":
            tenants.suspend_tenant(self._session, actor=ACTOR, tenant_id=self._trial.tenant_id)

    def _mail(self, template: str, which: str, **values: int | str) -> None:
        _queue_mail(self._session, self._context, self._trial, self._tenant.slug, template, which, values)


def _queue_mail(
    session: Session,
    context: SignUpContext,
    trial: Trial,
    slug: str,
    template: str,
    which: str,
    values: Mapping[str, int | str],
) -> None:
    mail.queue_mail(
        session,
        key=f"{template}:{trial.tenant_id}{which}",
        template=template,
        recipient=trial.email,
        values={"organisation": trial.organisation, "tenant": slug, **values},
        seal=context.seal,
    )


def convert_trial(session: Session, context: SignUpContext, *, actor: str, tenant_id: TenantId, msp: str = "") -> Trial:
    """Convert a trial to an ordinary tenant, and resume the tenant if it is suspended.

    `msp` is the slug of the MSP that gets the tenant; "" keeps the MSP. Requires a session in PlatformScope.
    """
    trial, tenant = _lock_trial(session, tenant_id)
    before = {"state": trial.state, "msp": str(tenant.msp_id)}
    if msp:
        tenant.msp_id = msps.require_by_slug(session, slug=msp).id
        msps.require_active(session, msp_id=tenant.msp_id)
    trial.state, trial.over_since = "converted", None
    session.flush()
    if tenant.status == "suspended":
        tenants.resume_tenant(session, actor=actor, tenant_id=tenant_id)
    after = {"state": trial.state, "msp": str(tenant.msp_id)}
    _audit(session, actor, tenant, "convert", before=before, after=after)
    _queue_mail(session, context, trial, tenant.slug, "trial-converted", "", {})
    return trial


def _lock_trial(session: Session, tenant_id: TenantId) -> tuple[Trial, Tenant]:
    """Lock and return a trial that can be converted or extended, and its tenant."""
    trial = require_trial(session, tenant_id=tenant_id, lock=True)
    if trial.state == "converted":
        raise Conflict("The trial is already converted.", place="tenant")
    tenant = tenants.require_tenant(session, tenant_id=tenant_id)
    if tenant.status == "deleting":
        raise Conflict("The tenant is being deleted.", place="tenant", remedy="Restore the tenant first.")
    return trial, tenant


def extend_trial(session: Session, *, actor: str, tenant_id: TenantId, days: int) -> Trial:
    """Extend a trial by `days` from its end, or from now if it has ended. Requires a session in PlatformScope."""
    if not 1 <= days <= MAX_EXTENSION_DAYS:
        raise InvalidInput(
            f"Invalid number of days: {days}.", place="days", remedy=f"Use 1 to {MAX_EXTENSION_DAYS} days."
        )
    trial, tenant = _lock_trial(session, tenant_id)
    before = {"ends_at": trial.ends_at.isoformat()}
    grace = trial.purged_at - trial.ends_at
    trial.ends_at = max(trial.ends_at, utc_now()) + timedelta(days=days)
    trial.purged_at, trial.reminded = trial.ends_at + grace, []
    if trial.state == "ended" and tenant.status == "suspended":
        tenants.resume_tenant(session, actor=actor, tenant_id=tenant_id)
    trial.state = "running"
    session.flush()
    _audit(session, actor, tenant, "extend", before=before, after={"ends_at": trial.ends_at.isoformat()})
    return trial
