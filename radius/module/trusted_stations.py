"""Stations from which a user has logged in.

Wrong passwords from other stations do not lock the user out at these trusted stations.

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
