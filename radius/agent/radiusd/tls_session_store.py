"""Maintains the TLS sessions that radiusd stores for resumption.

Deletes old sessions, limits the size of all sessions, and warns if space runs out.

The sessions are in /dev/shm (memory) if /dev/shm is writable. Other programs such as PostgreSQL share /dev/shm.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nac.kit import clock
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths

# Must equal the lifetime in radius/raddb/templates/eap.
LIFETIME_SECONDS = 24 * 3600
# Enough for about 50,000 sessions: two files of a memory page each. The store never uses more than half of the file
# system.
MAX_BYTES = 400 << 20
LOW_SHARE = 0.1


class TlsSessionStore:
    def __init__(self, paths: CellPaths, alarms: Alarms, *, slots: int) -> None:
        self._paths = paths
        self._alarms = alarms
        self._slots = slots

    def tidy(self) -> None:
        """Clean up the stored sessions. Call this method every few seconds.

        A failure raises an alarm, because without stored sessions each reconnect needs a full handshake.
        """
        directory = self._paths.sessions
        try:
            # Another program may have emptied /dev/shm, such as systemd-logind at a logout (RemoveIPC).
            for slot in range(self._slots):
                (directory / f"slot-{slot}").mkdir(mode=0o700, parents=True, exist_ok=True)
            place = os.statvfs(directory)
            size = place.f_blocks * place.f_frsize
            delete_old_sessions(directory, lifetime_seconds=LIFETIME_SECONDS, most_bytes=min(MAX_BYTES, size // 2))
            self._check_space(directory, size)
        except OSError as exc:
            self._alarms.report("session-store", f"Stored TLS sessions cannot be cleaned up: {exc}")
        else:
            self._alarms.clear("session-store")

    def _check_space(self, directory: Path, size: int) -> None:
        place = os.statvfs(directory)
        free = place.f_bavail * place.f_frsize
        if free < LOW_SHARE * size:
            self._alarms.report(
                "session-store-full",
                f"{free / (1 << 20):.1f} of {size / (1 << 20):.0f} MB are left in {directory.parent}. When no "
                "space is left, TLS sessions are not stored and devices do full handshakes.",
            )
        else:
            self._alarms.clear("session-store-full")


def delete_old_sessions(directory: Path, *, lifetime_seconds: int, most_bytes: int) -> int:
    """Remove expired TLS sessions. If all sessions together take more than `most_bytes`, also remove the oldest.

    Returns the number of removed files.

    All slots (port pairs) with sessions share the space equally, so a busy tenant displaces only its own sessions.
    """
    slots = [sorted(_list_stored(slot), reverse=True) for slot in directory.iterdir() if slot.is_dir()]
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


def _list_stored(slot: Path) -> Iterator[tuple[float, str, int]]:
    """Return time, path and disk usage in bytes of each file."""
    for entry in os.scandir(slot):
        # radiusd may remove the file at the same time.
        with suppress(FileNotFoundError):
            status = entry.stat()
            yield status.st_mtime, entry.path, status.st_blocks * 512
