"""Interface of the senders: syslog and webhook."""

from collections.abc import Sequence
from typing import Protocol

from nac.logs.events.document import Event


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
