"""Stores the position and the next attempt of a feed, and reports its failures to users.

`FeedSender` is the interface of the senders for syslog and webhooks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Protocol

from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.logs.events.document import Event
from nac.logs.feeds.batch_reader import FeedPosition
from nac.models import Feed


class SendFailed(Exception):
    """Sending failed: it is unknown whether the receiver got the batch.

    The message is for administrators and contains no secrets.
    """

    def __init__(
        self,
        why: str,
        *,
        retry_after_seconds: int | None = None,
        is_gone: bool = False,
        is_too_much: bool = False,
        is_refused: bool = False,
        is_slow: bool = False,
    ) -> None:
        super().__init__(why)
        # Seconds that the receiver requests to wait before the next attempt.
        self.retry_after_seconds = retry_after_seconds
        # True if the receiver rejects all future events, so that the feed must be paused.
        self.is_gone = is_gone
        # True if the batch was too large, and the receiver may accept fewer events.
        self.is_too_much = is_too_much
        # True if an event of the batch may be the cause of the failure.
        self.is_refused = is_refused
        # True if the receiver was too slow. The receiver may have received a part of the batch.
        self.is_slow = is_slow


class FeedSender(Protocol):
    """A connection to a feed's destination, for one run of the feed."""

    # Maximum number of events per batch.
    most_events: int
    # Whether the receiver confirms each batch. Without confirmations, only a successful `close` or a later batch
    # indicates that the receiver has a batch.
    is_confirmed: bool

    def fitting(self, events: Sequence[Event]) -> int:
        """Return how many of the first events fit into one batch; at least 1."""

    async def send(self, events: Sequence[Event]) -> None:
        """Send a batch. After SendFailed, the feed sends the batch again, so events may arrive twice."""

    async def close(self) -> None:
        """Close the connection. Raises SendFailed if it is unknown whether the last batch arrived."""

    async def drop(self) -> None:
        """Close the connection immediately, without checks. Raises no errors."""


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
    told_failing_at = NULL, attempts = :attempts, at_once = :at_once
WHERE id = :feed
""")
_STORE_FAILURE_SQL = text("""
UPDATE feeds SET attempts = :attempts, attempted_at = :now, next_attempt_at = :next, failure = :failure,
    failing_since = coalesce(failing_since, :now), told_failing_at = :told, at_once = :at_once,
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
        if feed.told_failing_at is not None and feed.failing_since is not None:
            _report_feed(session, feed, "recovered", {"failing_since": feed.failing_since.isoformat()})
        feed.failing_since, feed.told_failing_at = None, None
        feed.attempts = attempts
    return bool(status == "active")


def store_failure(session: Session, feed: Feed, failure: SendFailed, *, now: datetime) -> None:
    attempts = feed.attempts + 1
    pause = max(_pause_seconds(attempts), failure.retry_after_seconds or 0)
    since = feed.failing_since or now
    is_told = feed.told_failing_at is not None or now - since < REPORT_FAILURE_AFTER
    what = str(failure)[:_MAX_FAILURE_LENGTH]
    session.execute(
        _STORE_FAILURE_SQL,
        {
            "feed": feed.id,
            "attempts": attempts,
            "now": now,
            "next": now + timedelta(seconds=pause),
            "failure": what,
            "told": feed.told_failing_at if is_told else now,
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
