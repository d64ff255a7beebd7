"""Interface of senders."""

from collections.abc import Sequence
from typing import Protocol

from nac.logs.events.document import Event


class SendFailed(Exception):
    """The batch may not have arrived. The message is for an administrator and contains no secrets."""

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
        # Delay that the receiver requests.
        self.retry_after_seconds = retry_after_seconds
        # The receiver wants no more events.
        self.is_gone = is_gone
        # The receiver may accept fewer events.
        self.is_too_much = is_too_much
        # One of the events may be the cause.
        self.is_refused = is_refused
        # The receiver may have part of the batch and needs more time.
        self.is_slow = is_slow


class FeedSender(Protocol):
    """Connection to one destination, for one turn."""

    # Maximum per batch.
    most_events: int
    # Whether the receiver confirms each batch; otherwise only `close` gives some certainty.
    is_confirmed: bool

    def fitting(self, events: Sequence[Event]) -> int:
        """Return how many of the first events fit in one batch; at least one."""

    async def send(self, events: Sequence[Event]) -> None:
        """Send a batch. Raises SendFailed; the batch is then repeated, so events may arrive twice."""

    async def close(self) -> None:
        """Close. Raises SendFailed if the last batch may not have arrived."""

    async def drop(self) -> None:
        """Close at once without checks. Never raises."""
