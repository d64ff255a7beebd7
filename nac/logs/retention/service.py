"""Service for the retention settings of a tenant's logs, and for the platform's limits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput, MistakeCollector
from nac.kit.ids import TenantId
from nac.logs.log_tables import DEFAULT_LIMITS, EXPORTED_LOGS, LOG_NAMES, MIN_DAYS, LogLimits, LogName
from nac.logs.retention import plan, repository
from nac.logs.retention.plan import LogPlan
from nac.models import RetentionLimits, RetentionSetting
from nac.models.export import EXPORT_FORMATS

# Minimum budget in bytes. One day of a small site, including indexes, needs less.
MIN_BYTES = 1 << 20
MAX_DAYS = 36_500
# Setting value that restores the platform's default.
DEFAULT: Literal["default"] = "default"
DefaultChoice = Literal["default"]


def get_log_plans(session: Session, *, tenant_id: TenantId) -> Mapping[LogName, LogPlan]:
    """Return the effective retention of each log, with sizes, holds and notices."""
    limits = plan.load_limits(session)
    return plan.load_plan(session, tenant_id=tenant_id, now=utc_now(), limits=limits).logs


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionChange:
    """A change of a log's retention. None leaves a value unchanged. `export_format` "none" ends required exports."""

    log: str
    days: int | DefaultChoice | None = None
    bytes: int | DefaultChoice | None = None
    export_format: str | None = None

    def apply_to(self, setting: RetentionSetting) -> RetentionSetting:
        if self.days is not None:
            setting.days = None if self.days == DEFAULT else self.days
        if self.bytes is not None:
            setting.bytes = None if self.bytes == DEFAULT else self.bytes
        if self.export_format is not None:
            setting.export_format = None if self.export_format == "none" else self.export_format
        return setting


def preview_change(session: Session, *, tenant_id: TenantId, change: RetentionChange) -> LogPlan:
    """Return the plan after a change, without changing or locking anything. Raises InvalidInput with every mistake."""
    name = _require_valid(session, change)
    there = repository.get_setting(session, tenant_id, name)
    would_be = RetentionSetting(tenant_id=tenant_id, log=name)
    if there is not None:
        would_be.days, would_be.bytes, would_be.export_format = there.days, there.bytes, there.export_format
    limits = plan.load_limits(session)
    instead = {name: change.apply_to(would_be)}
    return plan.load_plan(session, tenant_id=tenant_id, now=utc_now(), limits=limits, instead=instead).logs[name]


def update_retention(session: Session, *, actor: str, tenant_id: TenantId, change: RetentionChange) -> LogPlan:
    """Change the retention of a log. A reduction takes effect a week later. Raises InvalidInput with every mistake."""
    name = _require_valid(session, change)
    setting = repository.lock_setting(session, tenant_id, name)
    # If retention has not run for this tenant yet, store the terms that applied before the change.
    repository.create_terms(session, tenant_id, name, get_log_plans(session, tenant_id=tenant_id)[name].terms.settled())
    before = _audit_values(setting)
    change.apply_to(setting)
    session.flush()
    after = _audit_values(setting)
    if after != before:
        audit.append(
            session,
            actor=actor,
            action="retention.set",
            target=name,
            tenant_id=tenant_id,
            before=before,
            after=after,
        )
    changed = get_log_plans(session, tenant_id=tenant_id)[name]
    # An increase takes effect at once. The next run of retention announces a reduction.
    repository.store_terms(session, tenant_id, name, changed.terms.settled())
    return changed


def _require_valid(session: Session, change: RetentionChange) -> LogName:
    mistakes = MistakeCollector()
    with mistakes.noted():
        name = require_log(change.log)
    mistakes.refuse()
    limits = plan.load_limits(session)[name]
    with mistakes.noted():
        _require_days(change.days, limits)
    with mistakes.noted():
        _require_bytes(change.bytes, limits)
    with mistakes.noted():
        _require_export(change.export_format, name)
    mistakes.refuse()
    return name


def require_log(log: str) -> LogName:
    for name in LOG_NAMES:
        if name == log:
            return name
    raise InvalidInput(f"Unknown log {log!r}.", place="log", remedy=f"Use one of: {', '.join(LOG_NAMES)}.")


def _require_days(days: int | DefaultChoice | None, limits: LogLimits) -> None:
    if isinstance(days, int) and not limits.floor_days <= days <= limits.ceiling_days:
        raise InvalidInput(
            f"{days} days are outside of the platform's limits.",
            place="days",
            remedy=f"Use {limits.floor_days} to {limits.ceiling_days} days.",
        )


def _require_bytes(chosen: int | DefaultChoice | None, limits: LogLimits) -> None:
    if not isinstance(chosen, int):
        return
    if chosen < MIN_BYTES or chosen > (limits.ceiling_bytes or 1 << 60):
        most = f" to {limits.ceiling_bytes}" if limits.ceiling_bytes else " or more"
        raise InvalidInput(
            f"Invalid budget: {chosen} bytes.", place="bytes", remedy=f"Use {MIN_BYTES}{most} bytes, or none."
        )


def _require_export(chosen: str | None, log: LogName) -> None:
    if chosen not in (None, "none", *EXPORT_FORMATS):
        raise InvalidInput(
            f"Unknown format {chosen!r}.", place="export", remedy=f"Use one of: {', '.join(EXPORT_FORMATS)}, none."
        )
    if chosen not in (None, "none") and log not in EXPORTED_LOGS:
        raise InvalidInput(
            f"The log {log} cannot be exported.", place="export", remedy=f"Use one of: {', '.join(EXPORTED_LOGS)}."
        )


def _audit_values(setting: RetentionSetting) -> dict[str, object]:
    return {
        "days": setting.days,
        "bytes": setting.bytes,
        "export": setting.export_format,
    }


def lock_log_setting(session: Session, *, tenant_id: TenantId, log: LogName) -> None:
    """Lock the tenant's retention setting of the log until the transaction ends."""
    repository.lock_setting(session, tenant_id, log)


def lock_limits(session: Session, *, log: LogName) -> None:
    """Lock the platform's limits of the log until the transaction ends, even if the log has default limits."""
    repository.lock_limits(session, log)


def get_limits(session: Session) -> dict[LogName, LogLimits]:
    return plan.load_limits(session)


def update_limits(session: Session, *, actor: str, log: str, limits: LogLimits | None) -> LogLimits:
    """Set the platform's limits of a log; None restores the default limits. A reduction takes effect a week later.

    Requires a session in PlatformScope. Raises InvalidInput.
    """
    name = require_log(log)
    lock_limits(session, log=name)
    before = plan.load_limits(session)[name]
    if limits is None:
        session.execute(delete(RetentionLimits).where(RetentionLimits.log == name))
    else:
        require_ordered_limits(limits)
        values = asdict(limits)
        session.execute(
            insert(RetentionLimits)
            .values(log=name, **values)
            .on_conflict_do_update(index_elements=[RetentionLimits.log], set_=values)
        )
    after = limits or DEFAULT_LIMITS[name]
    audit.append(
        session,
        actor=actor,
        action="retention.limit",
        target=name,
        before=asdict(before),
        after=asdict(after),
    )
    return after


def require_ordered_limits(limits: LogLimits) -> None:
    """Raise InvalidInput if floor, default and ceiling are not in ascending order, or the byte ceiling is too low."""
    if not MIN_DAYS <= limits.floor_days <= limits.default_days <= limits.ceiling_days <= MAX_DAYS:
        raise InvalidInput(
            f"Floor {limits.floor_days}, default {limits.default_days} and ceiling {limits.ceiling_days}"
            " are not in ascending order.",
            place="days",
            remedy=f"Use ascending values from {MIN_DAYS} to {MAX_DAYS}.",
        )
    if limits.ceiling_bytes is not None and limits.ceiling_bytes < MIN_BYTES:
        raise InvalidInput(
            f"The ceiling of {limits.ceiling_bytes} bytes is too low.",
            place="bytes",
            remedy=f"Use {MIN_BYTES} bytes or more.",
        )
