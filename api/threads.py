"""How many requests are answered at the same time, each by a thread of its own."""

from anyio import to_thread

# For what is answered as soon as it can be.
_USUAL = 40
# Beside them: those that wait for a cell to decide by what they have changed, and do nothing meanwhile.
WAITERS_MOST = 40


def set_number() -> None:
    """In the event loop, at its start."""
    to_thread.current_default_thread_limiter().total_tokens = _USUAL + WAITERS_MOST
