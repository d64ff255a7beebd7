"""What time it is for whoever deletes because time has passed: the database's clock, as long as it goes evenly."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.alarms import service as alarms
from nac.audit import service as audit
from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.models import RetentionClock
from nac.retention.terms import NOTICE_PERIOD

# A turn is every few minutes. After a longer gap, either no worker ran or the clock was set.
MAX_GAP = timedelta(days=1)
# What the worker's clock, by which exports are kept, may be apart from the database's.
MAX_CLOCK_SKEW = timedelta(minutes=5)
CLOCKS_DIFFER, CLOCK_JUMPED = "retention-clocks-differ", "retention-clock-jumped"


@dataclass(frozen=True, slots=True)
class ClockReading:
    now: datetime
    # Else nothing must be deleted because of it.
    is_trusted: bool


def read_clock(*, engine: Engine | None = None) -> ClockReading:
    """The time, as admit_worker. Each turn of retention asks; alarms tell why a clock is not believed."""
    with session_scope(PlatformScope(), engine=engine) as session:
        now = _database_now(session)
        row = session.scalar(select(RetentionClock).with_for_update())
        if row is None:
            session.execute(insert(RetentionClock).values(seen_at=now).on_conflict_do_nothing())
            return ClockReading(now, _clocks_agree(session, now))
        if now - row.seen_at > MAX_GAP:
            alarms.tell(
                session,
                code=CLOCK_JUMPED,
                detail=(
                    f"Between two turns of retention the clock went from {row.seen_at:%Y-%m-%d %H:%M} to"
                    f" {now:%Y-%m-%d %H:%M} UTC: it was set, or no worker ran. Nothing is deleted for"
                    f" {NOTICE_PERIOD.days} days. If the time is right: ./admit retention trust-clock"
                ),
                now=now,
            )
            row.doubted_until = now + NOTICE_PERIOD
        elif row.doubted_until is not None and not now < row.doubted_until <= now + NOTICE_PERIOD:
            # The time is over, or the clock was set back: whatever was wrong is right again.
            row.doubted_until = None
        if row.doubted_until is None:
            alarms.clear(session, code=CLOCK_JUMPED)
        row.seen_at = now
        agrees = _clocks_agree(session, now)
        return ClockReading(now, agrees and row.doubted_until is None)


def is_clock_trusted(session: Session) -> bool:
    """Whether the last turn of retention believed the clock, and it has gone on since; asked by whoever has no turn."""
    now = _database_now(session)
    row = session.scalar(select(RetentionClock))
    return row is None or (
        row.doubted_until is None and now - row.seen_at <= MAX_GAP and abs(utc_now() - now) <= MAX_CLOCK_SKEW
    )


def trust_clock(session: Session, *, actor: str) -> None:
    """A person says that the clock is right, in the platform's scope: the next turn deletes again."""
    row = session.scalar(select(RetentionClock).with_for_update())
    if row is not None and row.doubted_until is not None:
        audit.append(
            session,
            actor=actor,
            action="retention.trust-clock",
            target="clock",
            before={"doubted_until": row.doubted_until.isoformat()},
        )
        row.doubted_until = None


def _clocks_agree(session: Session, now: datetime) -> bool:
    apart = utc_now() - now
    if abs(apart) <= MAX_CLOCK_SKEW:
        alarms.clear(session, code=CLOCKS_DIFFER)
        return True
    detail = (
        f"The clocks of the worker and of the database are {abs(apart)} apart: nothing is deleted."
        " Have both set by a time service."
    )
    alarms.tell(session, code=CLOCKS_DIFFER, detail=detail, now=now)
    return False


def _database_now(session: Session) -> datetime:
    now: datetime = session.scalars(select(func.clock_timestamp())).one()
    return now
