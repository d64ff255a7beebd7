"""Stations from which a user's password has held: guesses from elsewhere do not lock the user out there.

An exchange of radiusd keeps them. The radiusd that ends writes a file, and the one that serves reads it when a user
would be locked out. Nothing is written or read otherwise; what a crash of radiusd forgets comes back with each login.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from radius.module.keys import Key, SharedTable

# 6 MB at most.
MAX_STATIONS = 20_000
_decode = msgspec.msgpack.Decoder(list[Key]).decode


class TrustedStations:
    """Not for several threads."""

    def __init__(self, path: Path | None = None, max_stations: int = MAX_STATIONS) -> None:
        """`path`: the file, which need not exist; None keeps nothing."""
        self._path = path
        self._stations: SharedTable[bool] = SharedTable(max_stations)
        # Of the file as it was read last.
        self._version = (0, 0)
        self._has_news = False
        self.refresh()

    def __len__(self) -> int:
        return len(self._stations)

    def __contains__(self, key: Key) -> bool:
        return self._stations.get(key) is not None

    def add(self, key: Key) -> None:
        self._stations.put(key, True)
        self._has_news = True

    def refresh(self) -> None:
        """Take over what another radiusd has written. A file that cannot be read is ignored."""
        if self._path is None:
            return
        # UnicodeDecodeError: msgspec passes it on.
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            status = os.stat(self._path)
            version = (status.st_ino, status.st_mtime_ns)
            if version != self._version:
                self._version = version
                for key in _decode(self._path.read_bytes()):
                    if key not in self:
                        self._stations.put(key, True)

    def save(self) -> None:
        """Write the file whole or not at all.

        A radiusd that has served nobody, such as one that checks a configuration, writes nothing: the one that serves
        would take its file for news, and forget newer stations for those in it.
        """
        if self._path is None or not self._has_news:
            return
        self.refresh()
        temporary = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode(list(self._stations)))
            os.replace(temporary, self._path)
