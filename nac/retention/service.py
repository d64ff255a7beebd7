"""How long a tenant's logs are kept, and within which limits: what people set and see."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.errors import InvalidInput, Mistakes
from nac.ids import TenantId
from nac.models import RetentionLimits, RetentionNotice, RetentionSetting
from nac.models.export import EXPORT_FORMATS
from nac.retention import plan, repository
from nac.retention.logs import DEFAULT_LIMITS, EXPORTED, LEAST_DAYS, LOG_NAMES, Limits, LogName
from nac.retention.plan import LogPlan

# Less is used up by a day of a small site, and its indexes.
LEAST_BYTES = 1 << 20
MOST_DAYS = 36_500
MOST_WAIT_DAYS = 30
# Of a setting: as the platform has it.
DEFAULT: Literal["default"] = "default"
Default = Literal["default"]


def show(session: Session, *, tenant_id: TenantId) -> Mapping[LogName, LogPlan]:
    """What is in force now, with sizes, holds and notices."""
    limits = plan.load_limits(session)
    return plan.load(session, tenant_id=tenant_id, now=utc_now(), limits=limits).logs


def change(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    log: str,
    days: int | Default | None = None,
    bytes: int | Default | None = None,  # noqa: A002 -- as it is called everywhere
    export_format: str | None = None,
    export_wait_days: int | None = None,
) -> LogPlan:
    """None leaves a part as it is; `export_format` "none" ends a standing order.

    Raises InvalidInput with every mistake.
    """
    mistakes = Mistakes()
    with mistakes.noted():
        name = require_log(log)
    mistakes.refuse()
    limits = plan.load_limits(session)[name]
    with mistakes.noted():
        _require_days(days, limits)
    with mistakes.noted():
        _require_bytes(bytes, limits)
    with mistakes.noted():
        _require_export(export_format, name)
    with mistakes.noted():
        if export_wait_days is not None and not 1 <= export_wait_days <= MOST_WAIT_DAYS:
            raise InvalidInput(
                f"Deletion cannot wait for {export_wait_days} days.",
                place="export_wait_days",
                remedy=f"Give 1 to {MOST_WAIT_DAYS}.",
            )
    mistakes.refuse()
    setting = repository.lock_setting(session, tenant_id, name)
    before = _values(setting)
    if days is not None:
        setting.days = None if days == DEFAULT else days
    if bytes is not None:
        setting.bytes = None if bytes == DEFAULT else bytes
    if export_format is not None:
        setting.export_format = None if export_format == "none" else export_format
    if export_wait_days is not None:
        setting.export_wait_days = export_wait_days
    session.flush()
    after = _values(setting)
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
    return show(session, tenant_id=tenant_id)[name]


def list_notices(session: Session, *, tenant_id: TenantId) -> Sequence[RetentionNotice]:
    return repository.notices(session, tenant_id)


def require_log(log: str) -> LogName:
    for name in LOG_NAMES:
        if name == log:
            return name
    raise InvalidInput(f"{log!r} is no log.", place="log", remedy=f"Use {', '.join(LOG_NAMES)}.")


def _require_days(days: int | Default | None, limits: Limits) -> None:
    if isinstance(days, int) and not limits.floor_days <= days <= limits.ceiling_days:
        raise InvalidInput(
            f"{days} days are not within what the platform allows.",
            place="days",
            remedy=f"Give {limits.floor_days} to {limits.ceiling_days}.",
        )


def _require_bytes(given: int | Default | None, limits: Limits) -> None:
    if not isinstance(given, int):
        return
    if given < LEAST_BYTES or given > (limits.ceiling_bytes or 1 << 60):
        most = f" to {limits.ceiling_bytes}" if limits.ceiling_bytes else " or more"
        raise InvalidInput(
            f"{given} bytes are no budget here.", place="bytes", remedy=f"Give {LEAST_BYTES}{most}, or none."
        )


def _require_export(given: str | None, log: LogName) -> None:
    if given not in (None, "none", *EXPORT_FORMATS):
        raise InvalidInput(
            f"{given!r} is no format.", place="export", remedy=f"Use {', '.join(EXPORT_FORMATS)} or none."
        )
    if given not in (None, "none") and log not in EXPORTED:
        raise InvalidInput(
            f"The log {log} is not exported.", place="export", remedy=f"These are: {', '.join(EXPORTED)}."
        )


def _values(setting: RetentionSetting) -> dict[str, object]:
    return {
        "days": setting.days,
        "bytes": setting.bytes,
        "export": setting.export_format,
        "export_wait_days": setting.export_wait_days,
    }


def show_limits(session: Session) -> dict[LogName, Limits]:
    return plan.load_limits(session)


def change_limits(session: Session, *, actor: str, log: str, limits: Limits | None) -> Limits:
    """The platform's, in its scope; None for those that the product comes with. Raises InvalidInput."""
    name = require_log(log)
    before = plan.load_limits(session)[name]
    if limits is None:
        session.execute(delete(RetentionLimits).where(RetentionLimits.log == name))
    else:
        _require_order(limits)
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


def _require_order(limits: Limits) -> None:
    if not LEAST_DAYS <= limits.floor_days <= limits.default_days <= limits.ceiling_days <= MOST_DAYS:
        raise InvalidInput(
            f"Floor {limits.floor_days}, default {limits.default_days}, ceiling {limits.ceiling_days}: not in order.",
            place="days",
            remedy=f"They go up, from {LEAST_DAYS} at least to {MOST_DAYS} at most.",
        )
    if limits.ceiling_bytes is not None and limits.ceiling_bytes < LEAST_BYTES:
        raise InvalidInput(
            f"{limits.ceiling_bytes} bytes are no ceiling.", place="bytes", remedy=f"Give {LEAST_BYTES} or more."
        )
