"""What both ways of sending have in common."""

from collections.abc import Sequence
from typing import Protocol

from nac.events.document import Event


class SendFailed(Exception):
    """The batch has not arrived for sure; the message is for an administrator, without secrets."""

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
        # What the receiver asks for.
        self.retry_after_seconds = retry_after_seconds
        # It never wants anything again.
        self.is_gone = is_gone
        # It would perhaps take fewer events.
        self.is_too_much = is_too_much
        # Perhaps on account of one of its events.
        self.is_refused = is_refused
        # It may have taken some of the batch, and needs longer for all of it.
        self.is_slow = is_slow


class Sender(Protocol):
    """The way to one destination, for one turn."""

    # Of one batch.
    most_events: int
    # Whether `send` is told by the receiver itself that it has the batch; else `close` is as near as it comes.
    is_confirmed: bool

    def fitting(self, events: Sequence[Event]) -> int:
        """How many of them, from the first on, go in one batch; at least one."""

    async def send(self, events: Sequence[Event]) -> None:
        """Raises SendFailed; the batch is then sent again, so that some of it may come twice."""

    async def close(self) -> None:
        """Raises SendFailed where the last batch may not have arrived."""

    async def drop(self) -> None:
        """Close at once, whatever becomes of what was sent; raises nothing."""
