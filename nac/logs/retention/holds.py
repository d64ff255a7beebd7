"""Legal holds: days of a tenant's logs that Admit does not delete, whatever the retention settings and budget are."""

from collections.abc import Sequence
from datetime import date

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, InvalidInput, MistakeCollector, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_name
from nac.logs.log_tables import LOG_NAMES
from nac.logs.retention import repository
from nac.models import RetentionHold


class HoldNotFound(NotFound):
    """The hold does not exist."""


class HoldInForce(Conflict):
    """A legal hold prevents the deletion."""


def create_hold(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    reason: str,
    log: str | None = None,
    first_day: date | None = None,
    last_day: date | None = None,
) -> RetentionHold:
    """Create a hold on the days (UTC) from `first_day` to `last_day` of one log or, without `log`, of all logs.

    If `first_day` or `last_day` is None, the hold has no limit on that side. After the commit, Admit deletes no rows of
    the days in the hold. Raises InvalidInput.
    """
    mistakes = MistakeCollector()
    with mistakes.noted():
        reason = require_name(reason, place="reason")
    with mistakes.noted():
        if log is not None and log not in LOG_NAMES:
            raise InvalidInput(f"Unknown log {log!r}.", place="log", remedy=f"Use one of: {', '.join(LOG_NAMES)}.")
    with mistakes.noted():
        if first_day is not None and last_day is not None and last_day < first_day:
            raise InvalidInput(
                f"The last day of the hold ({last_day}) is before the first day ({first_day}).",
                place="until",
                remedy=f"Set `until` to {first_day} or later.",
            )
    mistakes.refuse()
    repository.lock_holds_exclusive(session)
    hold = RetentionHold(
        tenant_id=tenant_id, log=log, first_day=first_day, last_day=last_day, reason=reason, set_by=actor
    )
    session.add(hold)
    session.flush()
    session.refresh(hold)
    after = {
        "log": log,
        "since": first_day.isoformat() if first_day else None,
        "until": last_day.isoformat() if last_day else None,
        "reason": reason,
    }
    _audit(session, actor, hold, "hold", after)
    return hold


def require_hold(session: Session, *, tenant_id: TenantId, hold_id: int, lock: bool = False) -> RetentionHold:
    """Return the hold `hold_id`. Raises HoldNotFound."""
    hold = repository.get_hold(session, tenant_id, hold_id, lock=lock)
    if hold is None:
        raise HoldNotFound(
            f"Hold {hold_id} does not exist.", place="hold", remedy=Advice("List holds", "listRetentionHolds")
        )
    return hold


def clear_hold(session: Session, *, actor: str, tenant_id: TenantId, hold_id: int) -> RetentionHold:
    """Clear a hold. After a week, the retention settings apply again to the days of the hold.

    Raises HoldNotFound, or Conflict if the hold is already cleared.
    """
    hold = require_hold(session, tenant_id=tenant_id, hold_id=hold_id, lock=True)
    if hold.cleared_at is not None:
        raise Conflict(f"Hold {hold_id} is already cleared.", place="hold")
    hold.cleared_at, hold.cleared_by = utc_now(), actor
    session.flush()
    _audit(session, actor, hold, "clear-hold", {"reason": hold.reason})
    return hold


def list_holds(
    session: Session, *, tenant_id: TenantId, span: PageSpan | None = None, in_force: bool | None = None
) -> Sequence[RetentionHold]:
    """List holds, oldest first by default. `in_force` selects only active (True) or only cleared (False) holds."""
    return repository.list_holds(session, tenant_id, span=span, in_force=in_force)


def lock_holds(session: Session) -> None:
    """Lock the holds of all tenants, so that the caller can change a hold.

    To avoid deadlocks, call this function before you lock a tenant's rows.
    """
    repository.lock_holds_exclusive(session)


def delete_cleared_holds(session: Session, *, tenant_id: TenantId) -> None:
    """Delete the cleared holds of a tenant that is being purged. Call `lock_holds` first.

    Raises HoldInForce if a hold is active.
    """
    _require_none_in_force(session, tenant_id)
    repository.delete_holds(session, tenant_id)


def require_no_hold(session: Session, *, tenant_id: TenantId) -> None:
    """Prevent new holds until the transaction ends. Raises HoldInForce if the tenant has an active hold."""
    repository.lock_holds_shared(session)
    _require_none_in_force(session, tenant_id)


def _require_none_in_force(session: Session, tenant_id: TenantId) -> None:
    if in_force := repository.list_holds_in_force(session, tenant_id):
        raise HoldInForce(
            f"Hold {in_force[0].id} prevents the deletion of the tenant's logs ({in_force[0].reason}).",
            place="tenant",
            remedy=Advice("Clear the hold first", "deleteRetentionHold"),
        )


def _audit(session: Session, actor: str, hold: RetentionHold, verb: str, after: dict[str, str | None]) -> None:
    audit.append(
        session, actor=actor, action=f"retention.{verb}", target=str(hold.id), tenant_id=hold.tenant_id, after=after
    )
