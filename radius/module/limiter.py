"""Failures per (slot, NAS, MAC): a device that fails without end is rejected unheard, and nobody else notices."""

from collections import OrderedDict

# A key, its list and its place in the table take about 300 bytes: 12 MB at the most.
MAX_KEYS = 40_000
LOG_EVERY_MICROSECONDS = 1_000_000

Key = tuple[int, str, str]


class FailureLimiter:
    """Fixed windows: `limit` failures within `window_seconds` close a key until its window ends.

    Rejects of a closed key do not count as failures, so a closed key opens by itself. Times are epoch microseconds.
    """

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self._max_keys = max_keys
        # key -> [window start, failures, last logged, suppressed since]
        self._failures: OrderedDict[Key, list[int]] = OrderedDict()

    def is_limited(self, key: Key, *, limit: int, window_seconds: int, at: int) -> bool:
        entry = self._failures.get(key)
        if entry is None:
            return False
        if _has_ended(entry, window_seconds, at):
            del self._failures[key]
            return False
        return entry[1] >= limit

    def count_failure(self, key: Key, *, window_seconds: int, at: int) -> None:
        entry = self._failures.get(key)
        if entry is None or _has_ended(entry, window_seconds, at):
            self._failures[key] = [at, 1, 0, 0]
            self._failures.move_to_end(key)
            if len(self._failures) > self._max_keys:
                self._failures.popitem(last=False)
            return
        entry[1] += 1

    def suppressed_before(self, key: Key, *, at: int) -> int | None:
        """Rejects to be reported with the one at hand, or None where this one is not to be logged itself."""
        entry = self._failures.get(key)
        if entry is None:
            return 0
        if 0 <= at - entry[2] < LOG_EVERY_MICROSECONDS:
            entry[3] += 1
            return None
        suppressed = entry[3]
        entry[2] = at
        entry[3] = 0
        return suppressed


def _has_ended(entry: list[int], window_seconds: int, at: int) -> bool:
    """A clock that was set back ends a window too: nobody is to wait for it to catch up."""
    return not 0 <= at - entry[0] < window_seconds * 1_000_000
