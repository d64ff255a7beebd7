"""The TLS sessions that radiusd stores to resume them: forgotten in time, within bounds, and an alarm where room ends.

They lie in memory (/dev/shm) where there is such a place, which other programs share, PostgreSQL among them.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nac import clock
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths

# As in radius/raddb/templates/eap.
LIFETIME_SECONDS = 24 * 3600
# Some 50,000 sessions: two files of a page each. Never more than half of what the place holds in all.
MOST_BYTES = 400 << 20
LOW_SHARE = 0.1


class SessionStore:
    def __init__(self, paths: CellPaths, alarms: Alarms, *, slots: int) -> None:
        self._paths = paths
        self._alarms = alarms
        self._slots = slots

    def tidy(self) -> None:
        """To be called every few seconds. What fails is an alarm: without stored sessions devices only take longer."""
        directory = self._paths.sessions
        try:
            # Somebody may have emptied /dev/shm: systemd-logind does for a user who logs out (RemoveIPC).
            for slot in range(self._slots):
                (directory / f"slot-{slot}").mkdir(mode=0o700, parents=True, exist_ok=True)
            place = os.statvfs(directory)
            size = place.f_blocks * place.f_frsize
            forget_old_sessions(directory, lifetime_seconds=LIFETIME_SECONDS, most_bytes=min(MOST_BYTES, size // 2))
            self._look_at_room(directory, size)
        except OSError as exc:
            self._alarms.tell("session-store", f"Stored TLS sessions cannot be looked after: {exc}")
        else:
            self._alarms.clear("session-store")

    def _look_at_room(self, directory: Path, size: int) -> None:
        place = os.statvfs(directory)
        free = place.f_bavail * place.f_frsize
        if free < LOW_SHARE * size:
            self._alarms.tell(
                "session-store-full",
                f"{free / (1 << 20):.1f} of {size / (1 << 20):.0f} MB are left in {directory.parent}. Where there is "
                "no room, TLS sessions are not stored and devices do full handshakes.",
            )
        else:
            self._alarms.clear("session-store-full")


def forget_old_sessions(directory: Path, *, lifetime_seconds: int, most_bytes: int) -> int:
    """Remove stored TLS sessions past their lifetime, and the oldest where they take more than `most_bytes`.

    The room is shared evenly among the slots that use it: a busy tenant forgets its own sessions, not those of others.
    Returns how many files were removed.
    """
    slots = [sorted(_stored(slot), reverse=True) for slot in directory.iterdir() if slot.is_dir()]
    share = most_bytes // max(1, sum(1 for files in slots if files))
    oldest_kept = clock.epoch_seconds() - lifetime_seconds
    removed = 0
    for files in slots:
        taken = 0
        for changed, path, size in files:
            taken += size
            if changed < oldest_kept or taken > share:
                Path(path).unlink(missing_ok=True)
                removed += 1
    return removed


def _stored(slot: Path) -> Iterator[tuple[float, str, int]]:
    """When each file was written, its path, and the bytes that it takes of the place."""
    for entry in os.scandir(slot):
        # radiusd removes sessions too.
        with suppress(FileNotFoundError):
            found = entry.stat()
            yield found.st_mtime, entry.path, found.st_blocks * 512
