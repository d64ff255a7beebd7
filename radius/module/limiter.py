"""Limits on failures: per station, and per user name for methods with a password.

All tables of failures have a maximum size, and tenants share the tables fairly. A flood at one tenant does not displace
entries of another tenant. Times are epoch microseconds.
"""

from radius.module.failure_keys import FailureKey, SharedTable
from radius.module.trusted_stations import TrustedStations

# An entry with its key and list takes about 300 bytes, so the table takes at most 12 MB.
MAX_KEYS = 40_000
# Limit of user names with wrong passwords. The entries take at most 6 MB.
MAX_NAMES = 20_000
LOG_EVERY_MICROSECONDS = 1_000_000


class FailureLimiter:
    """Limits failures of each key in fixed time windows.

    After `limit` failures within `window_seconds`, requests with the key are rejected until the time window
    ends. These rejects do not count as failures. So requests are possible again in the next time window.
    """

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        # key -> [start of the time window, failures, time of the last logged reject, rejects suppressed since then]
        self._failures: SharedTable[list[int]] = SharedTable(max_keys)

    def is_limited(self, key: FailureKey, *, limit: int, window_seconds: int, at: int) -> bool:
        entry = self._failures.get(key)
        if entry is None:
            return False
        if _has_ended(entry, window_seconds, at):
            self._failures.remove(key)
            return False
        return entry[1] >= limit

    def count_failure(self, key: FailureKey, *, window_seconds: int, at: int) -> None:
        entry = self._failures.get(key)
        if entry is None or _has_ended(entry, window_seconds, at):
            self._failures.put(key, [at, 1, 0, 0])
        else:
            entry[1] += 1

    def suppressed_before(self, key: FailureKey, *, at: int) -> int | None:
        """Number of suppressed rejects to report with this reject; None if this reject is suppressed, too."""
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


class GuessLimiter:
    """Limits wrong passwords per user name, from all stations and NASes together.

    Each station from which the user has logged in has its own count. So guesses from other stations do not lock the
    user out. Each time window of a count ends automatically.
    """

    def __init__(self, trusted: TrustedStations, max_names: int = MAX_NAMES) -> None:
        self.trusted = trusted
        self._failures = FailureLimiter(max_names)

    def is_limited(self, key: FailureKey, *, limit: int, window_seconds: int, at: int) -> bool:
        if not self._failures.is_limited(self._counted(key), limit=limit, window_seconds=window_seconds, at=at):
            return False
        if not key[2] or key in self.trusted:
            return True
        self.trusted.refresh()
        return key not in self.trusted

    def count_failure(self, key: FailureKey, *, window_seconds: int, at: int) -> None:
        self._failures.count_failure(self._counted(key), window_seconds=window_seconds, at=at)

    def count_success(self, key: FailureKey) -> None:
        """Record a correct password. From now on, this station has its own count for this user."""
        if key[2]:
            self.trusted.add(key)

    def _counted(self, key: FailureKey) -> FailureKey:
        return key if key in self.trusted else (*key[:2], "")


def _has_ended(entry: list[int], window_seconds: int, at: int) -> bool:
    """Whether the time window of a count has ended. A clock that was set back also ends the time window."""
    return not 0 <= at - entry[0] < window_seconds * 1_000_000
