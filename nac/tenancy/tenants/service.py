"""Tenants. `create_tenant` needs PlatformScope. All other functions work in any scope that can read the tenant."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from nac.cellformat.methods import MethodOffer
from nac.core.access.grants import TenantReach
from nac.core.access.tenant_lookup import find_msp, find_tenant
from nac.core.audit.service import tenant_recorder
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import enter_tenant
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, NotFound, ScopeViolation, SeveralMistakes
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel
from nac.kit.validation import require_name, require_slug
from nac.models import Tenant
from nac.models.tenant import StatusFailureMode, TenantStatus
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import repository
from nac.tenancy.tenants.realms import parse_realms
from nac.tenancy.tenants.repository import ORDERS as ORDERS

# Maximum number of days whose requests Admit replays before it publishes a policy. Publication waits for the replay.
MAX_REPLAY_DAYS = 90
# Bounds in seconds of the Session-Timeout for sessions at NASes behind NAT. Lower values cause constant
# reauthentication. Higher values end sessions too late.
NAT_SESSION_SECONDS = (60, 86_400)
# Bounds of the number of missed accounting reports after which a session counts as ended. One late report must not end
# a session.
SILENT_REPORTS = (2, 100)
SILENT_DAYS = (1, 60)
FAILURE_LIMIT = (1, 1_000_000)
FAILURE_WINDOW_SECONDS = (1, 3_600)
# Minimum time from the restoration of a tenant to the end of its secret rotations. Before the restoration, nobody could
# change the tenant's NASes.
RESTORED_ROTATION = timedelta(days=1)

audit_change = tenant_recorder("tenant")


class TenantNotFound(NotFound):
    """The tenant does not exist."""


class SuspendedFromAbove(Forbidden):
    """The MSP or the platform suspended this tenant."""


def create_tenant(session: Session, *, actor: str, slug: str, msp_id: MspId, name: str = "", label: str = "") -> Tenant:
    """Create a tenant with a first site and a slot (port pair of a cell).

    The site denies all requests until it has a policy. After the call, the database session is in the tenant's scope.
    `provision_tenant` calls this function, and then creates the certificate authorities.
    """
    require_slug(slug)
    msps.require_active(session, msp_id=msp_id)
    if there := repository.get_by_slug(session, slug):
        raise _already_exists_error(session, there, msp_id)
    tenant = Tenant(slug=slug, name=require_name(name or slug), msp_id=msp_id)
    session.add(tenant)
    session.flush()
    enter_tenant(session, tenant.id)
    slot = cells.assign_slot(session, tenant_id=tenant.id, label=label)
    after = {"name": tenant.name, "cell": slot.cell_id, "slot": slot.number}
    audit_change(session, actor, tenant, "create", after=after)
    site = sites.create_site(session, actor=actor, tenant_id=tenant.id, slug="main", name="Main site")
    tenant.default_site_id = site.id
    session.flush()
    return tenant


def _already_exists_error(session: Session, there: Tenant, msp_id: MspId) -> AlreadyExists:
    """Return the error that a tenant with this slug already exists.

    If the tenant belongs to the caller's MSP, the error contains the tenant's state. The caller may have created the
    tenant and lost the response. For other callers, the error says only that the slug exists.
    """
    if there.msp_id != msp_id:
        return AlreadyExists(f"Tenant {there.slug!r} already exists.", place="slug", remedy="Choose another slug.")
    summary = f"Tenant {there.slug!r} already exists, created {there.created_at:%Y-%m-%d %H:%M:%S} UTC: "
    if there.status == "deleting":
        return AlreadyExists(
            f"{summary}the tenant is being deleted.", place="slug", remedy="Restore the tenant, or choose another slug."
        )
    _enter_tenant(session, TenantId(there.id))
    if not repository.has_complete_authorities(session, TenantId(there.id)):
        return AlreadyExists(
            f"{summary}the tenant has no certificates yet.",
            place="slug",
            remedy=Advice(
                "If your request created this tenant and failed, Admit completes the tenant within two minutes."
                " Otherwise choose another slug. See the state of the tenant.",
                NextStep("getTenant", {"tenant": there.slug}),
            ),
        )
    return AlreadyExists(
        f"{summary}it is {there.status}.",
        place="slug",
        remedy=Advice(
            "If your own request created this tenant and you did not receive the response, use the tenant. Otherwise"
            " choose another slug. See the state of the tenant.",
            NextStep("getTenant", {"tenant": there.slug}),
        ),
    )


def suspend_tenant(
    session: Session, *, actor: str, tenant_id: TenantId, level: PermissionLevel = PermissionLevel.PLATFORM
) -> Tenant:
    """Reject all requests of the tenant until a user of this `level` or of a higher level resumes the tenant."""
    tenant = _update_status(
        session, actor=actor, tenant_id=tenant_id, to="suspended", verb="suspend", allowed=("active",)
    )
    if level is PermissionLevel.PLATFORM:
        # A later resumption of the MSP must not resume this tenant.
        tenant.suspended_with_msp = False
        session.flush()
    before = tenant.suspension_level
    if before is None or before < level:
        tenant.suspension_level = level
        session.flush()
        if before is not None:
            audit_change(
                session,
                actor,
                tenant,
                "suspend",
                before={"level": _level_name(before)},
                after={"level": _level_name(level)},
            )
    return tenant


def resume_tenant(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    is_deletion: bool = True,
    level: PermissionLevel = PermissionLevel.PLATFORM,
) -> Tenant:
    """End a suspension. With `is_deletion`, also cancel a pending deletion.

    If a user of a level above `level` suspended the tenant, the suspension remains: the call cancels only the deletion.
    If the tenant is not being deleted, or `is_deletion` is false, raises SuspendedFromAbove.
    """
    tenant = require_locked(session, tenant_id)
    above = tenant.suspension_level
    if above is None or above <= level:
        allowed: tuple[TenantStatus, ...] = ("suspended", "deleting") if is_deletion else ("suspended",)
        tenant = _update_status(session, actor=actor, tenant_id=tenant_id, to="active", verb="resume", allowed=allowed)
        tenant.suspension_level = None
        session.flush()
        return tenant
    if tenant.status != "deleting" or not is_deletion:
        raise SuspendedFromAbove(
            f"{_LEVEL_TITLES[PermissionLevel(above)]} has suspended this tenant.",
            place="status",
            remedy="Ask the operator or MSP to resume the tenant.",
        )
    return _update_status(
        session, actor=actor, tenant_id=tenant_id, to="suspended", verb="restore", allowed=("deleting",)
    )


def _level_name(level: int) -> str:
    return PermissionLevel(level).name.lower()


_LEVEL_TITLES = {PermissionLevel.MSP: "The MSP of the tenant", PermissionLevel.PLATFORM: "The platform's operator"}


def delete_tenant(
    session: Session, *, actor: str, tenant_id: TenantId, purge_at: datetime | None = None, is_new: bool = False
) -> Tenant:
    """Reject all requests of the tenant immediately.

    The worker purges the tenant's data (`purge_tenant`) after `purge_at`. If the tenant is already being deleted, the
    call has no effect, or raises Conflict if `is_new` is true.
    """
    allowed: tuple[TenantStatus, ...] = ("active", "suspended")
    return _update_status(
        session,
        actor=actor,
        tenant_id=tenant_id,
        to="deleting",
        verb="delete",
        allowed=allowed,
        purge_at=purge_at,
        is_new=is_new,
    )


def _update_status(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    to: TenantStatus,
    verb: str,
    allowed: Sequence[TenantStatus],
    purge_at: datetime | None = None,
    is_new: bool = False,
) -> Tenant:
    tenant = require_locked(session, tenant_id)
    if tenant.status == to:
        if is_new:
            raise Conflict(
                f"Tenant {tenant.slug!r} is already {to}.",
                place="status",
                remedy="Restore the tenant first, then delete it again.",
            )
        return tenant
    if tenant.status not in allowed:
        raise Conflict(f"Cannot {verb} tenant {tenant.slug!r}: the tenant is {tenant.status}.", place="status")
    if tenant.purge_at is not None and tenant.purge_at <= utc_now() and not _has_hold(session, tenant_id):
        raise Conflict(f"Tenant {tenant.slug!r} has reached its purge date and is being deleted.", place="status")
    if tenant.status == "deleting":
        _enter_tenant(session, tenant_id)
        repository.extend_rotations(session, tenant_id, until=utc_now() + RESTORED_ROTATION)
    before, tenant.status = tenant.status, to
    tenant.purge_at = purge_at
    tenant.suspended_with_msp = False
    session.flush()
    after: dict[str, object] = {"status": to}
    if purge_at is not None:
        after["purge_at"] = purge_at.isoformat()
    audit_change(session, actor, tenant, verb, before={"status": before}, after=after)
    return tenant


def _enter_tenant(session: Session, tenant_id: TenantId) -> None:
    # `enter_tenant` raises ScopeViolation for a session in the tenant's own scope, which already has access.
    with suppress(ScopeViolation):
        enter_tenant(session, tenant_id)


def _has_hold(session: Session, tenant_id: TenantId) -> bool:
    _enter_tenant(session, tenant_id)
    return repository.has_hold(session, tenant_id)


def rename_tenant(session: Session, *, actor: str, tenant_id: TenantId, name: str) -> Tenant:
    return _update_columns(session, actor, tenant_id, name=require_name(name))


def update_failure_limits(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    limit: int | None = None,
    window_seconds: int | None = None,
    password_limit: int | None = None,
    password_window_seconds: int | None = None,
) -> Tenant:
    """Set limits: failed logins of a device within `window_seconds`, and wrong passwords of a user name within
    `password_window_seconds`.

    If a device has too many failed logins, or a user name too many wrong passwords, cells reject further logins until
    the time window ends. An argument of None leaves the stored value unchanged.
    """
    given = {
        "failure_limit": (limit, FAILURE_LIMIT),
        "failure_window_seconds": (window_seconds, FAILURE_WINDOW_SECONDS),
        "password_failure_limit": (password_limit, FAILURE_LIMIT),
        "password_failure_window_seconds": (password_window_seconds, FAILURE_WINDOW_SECONDS),
    }
    return _update_bounded(session, actor, tenant_id, given)


def update_replay_days(session: Session, *, actor: str, tenant_id: TenantId, days: int | None) -> Tenant:
    """Set how many days of requests Admit replays before it publishes a policy.

    If `days` is None, publication needs no replay.
    """
    require_replay_days(days)
    return _update_columns(session, actor, tenant_id, replay_days=days)


def require_replay_days(days: int | None) -> None:
    """Raise InvalidInput if `days` is out of range."""
    if days is not None and not 1 <= days <= MAX_REPLAY_DAYS:
        raise InvalidInput(
            f"Invalid number of replay days: {days}.",
            place="replay_days",
            remedy=f"Use 1 to {MAX_REPLAY_DAYS} days, or 0 for no replay.",
        )


def update_renewal(session: Session, *, actor: str, tenant_id: TenantId, keeps_key: bool) -> Tenant:
    """Set whether a renewed certificate may have the key of the previous certificate."""
    return _update_columns(session, actor, tenant_id, renewal_keeps_key=keeps_key)


def update_realms(session: Session, *, actor: str, tenant_id: TenantId, realms: Sequence[str]) -> Tenant:
    """Set the realms and NetBIOS domains that Admit removes from user names."""
    return _update_columns(session, actor, tenant_id, realms=parse_realms(realms))


def update_method_offer(session: Session, *, actor: str, tenant_id: TenantId, offer: MethodOffer) -> Tenant:
    """Set the authentication methods and TLS versions for devices of the tenant.

    A cell enforces the methods and versions as soon as the cell has applied the change. radiusd offers a changed set of
    TLS versions only after its restart in a quiet moment. Until the restart, the cell completes handshakes with other
    versions, and then rejects the device.
    """
    given = {"methods": offer.methods, "tls_versions": offer.tls_versions}
    return _update_columns(
        session, actor, tenant_id, **{name: list(value) for name, value in given.items() if value is not None}
    )


def update_status_failure(session: Session, *, actor: str, tenant_id: TenantId, to: StatusFailureMode) -> Tenant:
    """Set whether Admit accepts a certificate of an external authority if Admit does not know its current status."""
    return _update_columns(session, actor, tenant_id, status_failure=to)


def update_nat_session(session: Session, *, actor: str, tenant_id: TenantId, seconds: int) -> Tenant:
    """Set the Session-Timeout in seconds for sessions at NASes behind NAT, which Disconnect-Requests cannot reach.

    With 0, Admit sends no Session-Timeout.
    """
    require_nat_session(seconds)
    return _update_columns(session, actor, tenant_id, nat_session_seconds=seconds)


def require_nat_session(seconds: int) -> None:
    """Raise InvalidInput if `seconds` is out of range."""
    least, most = NAT_SESSION_SECONDS
    if seconds and not least <= seconds <= most:
        raise InvalidInput(
            f"Invalid Session-Timeout: {seconds} seconds.",
            place="nat_session_seconds",
            remedy=f"Use {least} to {most} seconds, or 0 for no Session-Timeout.",
        )


def update_silence(
    session: Session, *, actor: str, tenant_id: TenantId, reports: int | None = None, days: int | None = None
) -> Tenant:
    """Set when a session counts as ended: after `reports` missed reports, or after `days` days without a report.

    An argument of None leaves the stored value unchanged.
    """
    return _update_bounded(session, actor, tenant_id, _silence_values(reports, days))


def require_silence(*, reports: int | None, days: int | None) -> None:
    """Raise InvalidInput if a value is out of range."""
    _require_within(_silence_values(reports, days))


_BoundedValues = Mapping[str, tuple[int | None, tuple[int, int]]]


def _silence_values(reports: int | None, days: int | None) -> _BoundedValues:
    return {"silent_reports": (reports, SILENT_REPORTS), "silent_days": (days, SILENT_DAYS)}


def _update_bounded(session: Session, actor: str, tenant_id: TenantId, given: _BoundedValues) -> Tenant:
    _require_within(given)
    return _update_columns(
        session, actor, tenant_id, **{name: value for name, (value, _) in given.items() if value is not None}
    )


def _require_within(given: _BoundedValues) -> None:
    """Check that each value is within its bounds. Raises InvalidInput or SeveralMistakes."""
    mistakes = [
        InvalidInput(f"Invalid value of {place}: {value}.", place=place, remedy=f"Use a value from {least} to {most}.")
        for place, (value, (least, most)) in given.items()
        if value is not None and not least <= value <= most
    ]
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else SeveralMistakes(mistakes)


def _update_columns(session: Session, actor: str, tenant_id: TenantId, **columns: object) -> Tenant:
    """Set columns of the tenant. Writes an audit entry if a value changed."""
    tenant = require_locked(session, tenant_id)
    before = {name: getattr(tenant, name) for name in columns}
    if columns != before:
        for name, value in columns.items():
            setattr(tenant, name, value)
        session.flush()
        audit_change(session, actor, tenant, "set", before=before, after=columns)
    return tenant


def list_tenants(
    session: Session,
    *,
    span: PageSpan | None = None,
    only: Collection[TenantId] | None = None,
    text: str = "",
    statuses: Collection[TenantStatus] = (),
) -> Sequence[Tenant]:
    """List tenants. `only` selects tenants by id. `text` is a part of the slug or name."""
    span = span or ORDERS.first()
    return repository.list_page(session, span=span, only=only, text=text, statuses=statuses)


def list_visible(
    session: Session,
    *,
    reach: TenantReach,
    span: PageSpan | None = None,
    msp: str = "",
    text: str = "",
    statuses: Collection[TenantStatus] = (),
    keys: Collection[str] = (),
    has_two_factors: bool = True,
) -> Sequence[Tenant]:
    """List tenants of all MSPs within `reach`. Needs PlatformScope, or the scope of an MSP or tenant.

    If `has_two_factors` is false, the list excludes tenants that require two factors. `msp` is the slug or id of an
    MSP. `text` is a part of the tenant's slug or name. `keys` are slugs and ids; the list excludes other tenants.
    """
    place = find_msp(session, msp) if msp else None
    if msp and place is None:
        return ()
    return repository.list_visible(
        session,
        reach,
        span=span or ORDERS.first(),
        msp_id=place.msp_id if place else None,
        text=text,
        statuses=statuses,
        keys=keys,
        has_two_factors=has_two_factors,
    )


@dataclass(frozen=True, slots=True)
class TenantName:
    slug: str
    name: str


def list_names(
    session: Session, *, reach: TenantReach, tenant: str, msp: str, has_two_factors: bool, limit: int
) -> Mapping[TenantId, TenantName]:
    """Return the names of at most `limit` tenants within `reach`, as `list_visible` selects them.

    `tenant` and `msp` are slugs or ids of the only tenant and MSP; "" for all.
    """
    only = find_tenant(session, tenant) if tenant else None
    place = find_msp(session, msp) if msp else None
    if (tenant and only is None) or (msp and place is None):
        return {}
    rows = repository.list_names(
        session,
        reach,
        tenant_id=only.tenant_id if only else None,
        msp_id=place.msp_id if place else None,
        has_two_factors=has_two_factors,
        limit=limit,
    )
    return {tenant_id: TenantName(slug, name) for tenant_id, slug, name in rows}


def require_tenant(session: Session, *, tenant_id: TenantId) -> Tenant:
    tenant = repository.get(session, tenant_id)
    if tenant is None:
        raise TenantNotFound("The tenant does not exist.", place="tenant")
    return tenant


def require_by_slug(session: Session, *, slug: str) -> Tenant:
    tenant = repository.get_by_slug(session, slug)
    if tenant is None:
        raise TenantNotFound(
            f"Tenant {slug!r} does not exist.", place="tenant", remedy=Advice("List tenants", "listTenants")
        )
    return tenant


def require_locked(session: Session, tenant_id: TenantId) -> Tenant:
    tenant = repository.lock_tenant(session, tenant_id)
    if tenant is None:
        raise TenantNotFound
    return tenant
