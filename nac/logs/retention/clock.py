"""Checks the database's clock. After a jump of this clock, retention deletes nothing for NOTICE_PERIOD."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.core import alarms
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.logs.retention.terms import NOTICE_PERIOD
from nac.models import RetentionClock

# Retention runs every few minutes. A longer gap means that no worker ran, or that an administrator set the clock.
MAX_GAP = timedelta(days=1)
# Maximum difference between the worker's clock, which exports use, and the database's clock.
MAX_CLOCK_SKEW = timedelta(minutes=5)
CLOCKS_DIFFER, CLOCK_JUMPED = "retention-clocks-differ", "retention-clock-jumped"


@dataclass(frozen=True, slots=True)
class ClockReading:
    now: datetime
    # If false, retention must not delete rows.
    is_trusted: bool


def read_clock(*, engine: Engine | None = None) -> ClockReading:
    """Read and check the database's clock. Each run of retention calls this function.

    If the clock is not trusted, raises an alarm with the reason. Requires the database role admit_worker.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        now = read_database_time(session)
        row = session.scalar(select(RetentionClock).with_for_update())
        if row is None:
            session.execute(insert(RetentionClock).values(seen_at=now).on_conflict_do_nothing())
            return ClockReading(now, _clocks_agree(session, now))
        if now - row.seen_at > MAX_GAP:
            alarms.raise_alarm(
                session,
                code=CLOCK_JUMPED,
                detail=(
                    f"The clock changed from {row.seen_at:%Y-%m-%d %H:%M} to {now:%Y-%m-%d %H:%M} UTC"
                    " between two runs of retention: the clock was set, or no worker ran. Nothing is deleted"
                    f" for {NOTICE_PERIOD.days} days, unless the clock is set back."
                ),
                now=now,
            )
            row.doubted_until = now + NOTICE_PERIOD
        elif row.doubted_until is not None and not now < row.doubted_until <= now + NOTICE_PERIOD:
            # Trust the clock again: NOTICE_PERIOD is over, or the clock was set back.
            row.doubted_until = None
        if row.doubted_until is None:
            alarms.clear_alarm(session, code=CLOCK_JUMPED)
        row.seen_at = now
        agrees = _clocks_agree(session, now)
        return ClockReading(now, agrees and row.doubted_until is None)


def is_clock_trusted(session: Session) -> bool:
    """Return whether Admit trusts the database's clock: no recent jump, and little difference to the worker's clock."""
    now = read_database_time(session)
    row = session.scalar(select(RetentionClock))
    return row is None or (
        row.doubted_until is None and now - row.seen_at <= MAX_GAP and abs(utc_now() - now) <= MAX_CLOCK_SKEW
    )


def _clocks_agree(session: Session, now: datetime) -> bool:
    apart = utc_now() - now
    if abs(apart) <= MAX_CLOCK_SKEW:
        alarms.clear_alarm(session, code=CLOCKS_DIFFER)
        return True
    detail = (
        f"The clocks of the worker and the database differ by {abs(apart)}. Nothing is deleted."
        " Synchronize both clocks with a time service."
    )
    alarms.raise_alarm(session, code=CLOCKS_DIFFER, detail=detail, now=now)
    return False


def read_database_time(session: Session) -> datetime:
    """Return the time of the database's clock."""
    now: datetime = session.scalars(select(func.clock_timestamp())).one()
    return now
