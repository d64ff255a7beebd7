"""Limits on failures: per station, and per user name for methods with a password.

All tables of failures have a maximum size, and tenants share the tables fairly. A flood at one tenant does not displace
entries of another tenant. Times are epoch microseconds.

`TrustedStations` contains the stations from which a user has logged in. Wrong passwords from other stations do not lock
the user out at these stations.

A replaced radiusd writes the stations to a file when it ends. The next radiusd reads the file when a user would be
locked out. A crash loses the stations, but each login adds its station again.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from radius.module.failure_keys import FailureKey, SharedTable

# Limit of stations. The entries take at most 6 MB.
MAX_STATIONS = 20_000
_decode = msgspec.msgpack.Decoder(list[FailureKey]).decode


class TrustedStations:
    """Trusted stations by user. Not thread-safe."""

    def __init__(self, path: Path | None = None, max_stations: int = MAX_STATIONS) -> None:
        """Read the stations in the file `path`, which may be missing.

        If `path` is None, the object stores no stations in a file.
        """
        self._path = path
        self._stations: SharedTable[bool] = SharedTable(max_stations)
        # Identity and time of the file at the last read.
        self._version = (0, 0)
        self._has_news = False
        self.refresh()

    def __len__(self) -> int:
        return len(self._stations)

    def __contains__(self, key: FailureKey) -> bool:
        return self._stations.get(key) is not None

    def add(self, key: FailureKey) -> None:
        self._stations.put(key, True)
        self._has_news = True

    def refresh(self) -> None:
        """Add stations that another radiusd wrote to the file. Ignores an unreadable file."""
        if self._path is None:
            return
        # msgspec raises UnicodeDecodeError for text that is not UTF-8.
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            status = os.stat(self._path)
            version = (status.st_ino, status.st_mtime_ns)
            if version != self._version:
                self._version = version
                for key in _decode(self._path.read_bytes()):
                    if key not in self:
                        self._stations.put(key, True)

    def save(self) -> None:
        """Write the file atomically.

        A radiusd without logins, such as one that tests a configuration, writes nothing. If such a radiusd wrote the
        file, the serving radiusd would read the older stations of the file and lose newer stations.
        """
        if self._path is None or not self._has_news:
            return
        self.refresh()
        temporary = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(list(self._stations)))
            os.replace(temporary, self._path)


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
