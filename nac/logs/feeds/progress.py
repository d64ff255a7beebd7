"""Stores the position and the next attempt of a feed, and reports its failures to users."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import SystemRandom

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.logs.feeds.batch_reader import FeedPosition
from nac.logs.feeds.sender import SendFailed
from nac.models import Feed

_log = logging.getLogger(__name__)
WORKER_ACTOR = "system:worker"
# Maximum pause after a failure. The pause doubles with each failure. Up to half of it is random, so that feeds do not
# all retry at the same time.
MAX_BACKOFF_SECONDS = 300
_FIRST_BACKOFF_SECONDS = 1.0
_MAX_DOUBLINGS = 10
# Report a failure only after this time, because a restart of the receiver needs no report.
REPORT_FAILURE_AFTER = timedelta(minutes=15)
_MAX_FAILURE_LENGTH = 500
# Maximum ids of skipped events in a report. The report also has the number of all skipped events.
_MAX_IDS = 20
_random = SystemRandom()

_STORE_POSITION_SQL = text("""
UPDATE feeds SET done = :done, until = :until, mark = :mark, mark_at = :mark_at, mark_row = :mark_row,
    mark_rows = :mark_rows, lost = lost + :lost, attempted_at = :now
WHERE id = :feed RETURNING status
""")
_STORE_ARRIVAL_SQL = text("""
UPDATE feeds SET delivered = delivered + :events, delivered_at = :now, failing_since = NULL, failure = '',
    failure_reported_at = NULL, attempts = :attempts, at_once = :at_once
WHERE id = :feed
""")
_STORE_FAILURE_SQL = text("""
UPDATE feeds SET attempts = :attempts, attempted_at = :now, next_attempt_at = :next, failure = :failure,
    failing_since = coalesce(failing_since, :now), failure_reported_at = :told, at_once = :at_once,
    status = CASE WHEN :is_gone THEN 'paused' ELSE status END,
    paused_because = CASE WHEN :is_gone THEN :failure ELSE paused_because END
WHERE id = :feed
""")


@dataclass(frozen=True, slots=True)
class DeliveryStep:
    """A new position of a feed, and the events that the feed sent or skipped since the stored position."""

    position: FeedPosition
    events: int = 0
    lost: int = 0
    # Ids of skipped events, which the receiver rejects while it accepts other events.
    refused: tuple[str, ...] = ()

    def then(self, following: "DeliveryStep") -> "DeliveryStep":
        return replace(
            following,
            events=self.events + following.events,
            lost=self.lost + following.lost,
            refused=self.refused + following.refused,
        )


def store_delivery(
    session: Session, feed: Feed, step: DeliveryStep, *, now: datetime, refusal: SendFailed | None = None
) -> bool:
    """Store a delivery. Returns False if a user paused or deleted the feed meanwhile.

    `refusal` is the receiver's rejection of a single event in this run of the feed. Also stores `feed.at_once`, the
    limit of events per batch.
    """
    position = step.position
    status = session.scalar(
        _STORE_POSITION_SQL,
        {
            "feed": feed.id,
            "done": position.done,
            "until": position.until,
            "mark": position.mark,
            "mark_at": position.mark_at,
            "mark_row": position.mark_row,
            "mark_rows": position.mark_rows,
            "lost": step.lost + len(step.refused),
            "now": now,
        },
    )
    if status is not None and step.refused:
        because = str(refusal)[:_MAX_FAILURE_LENGTH]
        details = {"number": len(step.refused), "ids": step.refused[:_MAX_IDS], "because": because}
        _report_feed(session, feed, "give-up", details)
    # If the feed filtered all events out and sent none, the receiver's state is unknown.
    if status is not None and step.events:
        # More events may be rejected. Keep the number of attempts, so that the next run isolates them at once.
        attempts = feed.attempts if refusal else 0
        arrived = {"events": step.events, "now": now, "attempts": attempts, "at_once": feed.at_once}
        session.execute(_STORE_ARRIVAL_SQL, {"feed": feed.id} | arrived)
        if feed.failure_reported_at is not None and feed.failing_since is not None:
            _report_feed(session, feed, "recovered", {"failing_since": feed.failing_since.isoformat()})
        feed.failing_since, feed.failure_reported_at = None, None
        feed.attempts = attempts
    return bool(status == "active")


def store_failure(session: Session, feed: Feed, failure: SendFailed, *, now: datetime) -> None:
    attempts = feed.attempts + 1
    pause = max(_pause_seconds(attempts), failure.retry_after_seconds or 0)
    since = feed.failing_since or now
    is_told = feed.failure_reported_at is not None or now - since < REPORT_FAILURE_AFTER
    what = str(failure)[:_MAX_FAILURE_LENGTH]
    session.execute(
        _STORE_FAILURE_SQL,
        {
            "feed": feed.id,
            "attempts": attempts,
            "now": now,
            "next": now + timedelta(seconds=pause),
            "failure": what,
            "told": feed.failure_reported_at if is_told else now,
            "at_once": feed.at_once,
            "is_gone": failure.is_gone,
        },
    )
    if failure.is_gone:
        _report_feed(session, feed, "pause", {"because": what})
    elif not is_told:
        _report_feed(session, feed, "failing", {"since": since.isoformat(), "failure": what})


def _pause_seconds(attempts: int) -> float:
    most = min(MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * float(2 ** min(attempts, _MAX_DOUBLINGS)))
    return most * _random.uniform(0.5, 1)


def _report_feed(session: Session, feed: Feed, verb: str, after: dict[str, object]) -> None:
    report_event(session, feed.tenant_id, feed.slug, verb, after)


def report_event(session: Session, tenant_id: TenantId, slug: str, verb: str, after: dict[str, object]) -> None:
    """Record an event of a feed in the audit log, and in the worker's log.

    The tenant's other feeds can deliver this entry of the audit log.
    """
    audit.append(session, actor=WORKER_ACTOR, action=f"feed.{verb}", target=slug, tenant_id=tenant_id, after=after)
    _log.warning("feed %s of tenant %s: %s %s", slug, tenant_id, verb, after)
