"""What becomes of a feed while it is delivered: how far it came, when it is tried again, and who is told."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import SystemRandom

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.feeds.reading import Position
from nac.feeds.sending import SendFailed
from nac.models import Feed

_log = logging.getLogger(__name__)
ACTOR = "system:worker"
# Doubled with each failure, and less by up to a half, so that feeds do not come back together.
BACKOFF_MOST_SECONDS = 300
_FIRST_SECONDS = 1.0
_DOUBLINGS_MOST = 10
# A receiver that is started again is no reason to call anybody.
TELL_AFTER = timedelta(minutes=15)
_FAILURE_CHARACTERS = 500
_random = SystemRandom()

_DELIVERED = text("""
UPDATE feeds SET done = :done, until = :until, mark = :mark, mark_at = :mark_at, mark_row = :mark_row,
    lost = lost + :lost, attempted_at = :now
WHERE id = :feed RETURNING status
""")
_ARRIVED = text("""
UPDATE feeds SET delivered = delivered + :events, delivered_at = :now, attempts = 0, failing_since = NULL, failure = '',
    told_failing_at = NULL
WHERE id = :feed
""")
_FAILED = text("""
UPDATE feeds SET attempts = :attempts, attempted_at = :now, next_attempt_at = :next, failure = :failure,
    failing_since = coalesce(failing_since, :now), told_failing_at = :told,
    status = CASE WHEN :is_gone THEN 'paused' ELSE status END,
    paused_because = CASE WHEN :is_gone THEN :failure ELSE paused_because END
WHERE id = :feed
""")


@dataclass(frozen=True, slots=True)
class Step:
    """A position up to which everything was sent, and what was sent or given up to come there."""

    position: Position
    events: int = 0
    lost: int = 0

    def then(self, following: "Step") -> "Step":
        return replace(following, events=self.events + following.events, lost=self.lost + following.lost)


def store_delivered(session: Session, feed: Feed, step: Step, *, now: datetime) -> bool:
    """Whether the feed is to be gone on with: nobody has paused or removed it meanwhile."""
    position = step.position
    status = session.scalar(
        _DELIVERED,
        {
            "feed": feed.id,
            "done": position.done,
            "until": position.until,
            "mark": position.mark,
            "mark_at": position.mark_at,
            "mark_row": position.mark_row,
            "lost": step.lost,
            "now": now,
        },
    )
    # What a feed does not want says nothing of its receiver.
    if status is not None and step.events:
        session.execute(_ARRIVED, {"feed": feed.id, "events": step.events, "now": now})
        if feed.told_failing_at is not None and feed.failing_since is not None:
            _tell(session, feed, "recovered", {"failing_since": feed.failing_since.isoformat()})
        feed.attempts, feed.failing_since, feed.told_failing_at = 0, None, None
    return bool(status == "active")


def store_failed(session: Session, feed: Feed, failure: SendFailed, *, now: datetime) -> None:
    attempts = feed.attempts + 1
    pause = max(_pause_seconds(attempts), failure.retry_after_seconds or 0)
    since = feed.failing_since or now
    is_told = feed.told_failing_at is not None or now - since < TELL_AFTER
    what = str(failure)[:_FAILURE_CHARACTERS]
    session.execute(
        _FAILED,
        {
            "feed": feed.id,
            "attempts": attempts,
            "now": now,
            "next": now + timedelta(seconds=pause),
            "failure": what,
            "told": feed.told_failing_at if is_told else now,
            "is_gone": failure.is_gone,
        },
    )
    if failure.is_gone:
        _tell(session, feed, "pause", {"because": what})
    elif not is_told:
        _tell(session, feed, "failing", {"since": since.isoformat(), "failure": what})


def _pause_seconds(attempts: int) -> float:
    most = min(BACKOFF_MOST_SECONDS, _FIRST_SECONDS * float(2 ** min(attempts, _DOUBLINGS_MOST)))
    return most * _random.uniform(0.5, 1)


def _tell(session: Session, feed: Feed, verb: str, after: dict[str, object]) -> None:
    """In the audit log, which other feeds of the tenant carry, and in the worker's own."""
    audit.append(session, actor=ACTOR, action=f"feed.{verb}", target=feed.slug, tenant_id=feed.tenant_id, after=after)
    _log.warning("feed %s of tenant %s: %s %s", feed.slug, feed.tenant_id, verb, after)
