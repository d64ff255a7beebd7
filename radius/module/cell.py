"""Objects that exist as long as the process of radiusd: settings, replica, journals, limiter.

The module opens these objects once, after radiusd has forked.
"""

import traceback
from functools import cache
from pathlib import Path

from nac.cellformat.journal.records import JournalRecord
from nac.cellformat.journal.writer import JournalError, JournalWriter
from nac.cellformat.replica.store import ReplicaReader
from nac.engine.vendors import all_vendors
from nac.kit import clock
from radius.module.limiter import FailureLimiter, GuessLimiter, TrustedStations
from radius.module.policies import CompiledPolicies
from radius.module.radiusd_api import log_error
from radius.module.settings import ModuleSettings, load_settings


class Journal:
    """A stream of the journal.

    If a record cannot be appended, `append` returns False, and logs the failure at most once a second.
    """

    def __init__(self, settings: ModuleSettings, stream: str) -> None:
        self._stream = stream
        self._last_said = 0
        self._writer = JournalWriter(
            Path(settings.journal_directory) / stream,
            max_bytes=settings.journal_max_bytes,
            sync=settings.journal_sync,
        )

    def append(self, record: JournalRecord) -> bool:
        """Append the record. Returns whether the journal now contains the record."""
        try:
            self._writer.append(record)
        except JournalError as error:
            now = clock.epoch_seconds()
            if now != self._last_said:
                self._last_said = now
                log_error(f"admit: journal-refused stream={self._stream}: {error}")
            return False
        return True

    def close(self) -> None:
        self._writer.close()


class Cell:
    """Objects of this process.

    The two instances of the module share these objects, because LMDB allows one environment per process.
    """

    def __init__(self) -> None:
        self.settings = load_settings()
        # Read the files now, so that an invalid file stops radiusd's start and not the first device.
        all_vendors()
        self.replica = ReplicaReader(self.settings.replica_directory)
        self.policies = CompiledPolicies()
        self.limiter = FailureLimiter()
        kept = self.settings.trusted_stations_file
        self.guesses = GuessLimiter(TrustedStations(Path(kept) if kept else None))

    def journal(self, stream: str) -> Journal:
        return Journal(self.settings, stream)


@cache
def get_cell() -> Cell:
    return Cell()


_not_ready_logged_at = 0


def log_not_ready(slot: int, at: int) -> None:
    """Log a packet at a slot (port pair) that has no tenant in the replica, at most once a second.

    No tenant's log can contain the packet, because the slot has no tenant.
    """
    global _not_ready_logged_at
    if at - _not_ready_logged_at >= 1_000_000:
        _not_ready_logged_at = at
        log_error(f"admit: not-ready slot={slot}")


_full_logged_at: dict[int, int] = {}


def log_conversations_full(slot: int, source: str, at: int) -> None:
    """Log that a conversation was ended to make room for others, at most once a second for each slot (port pair)."""
    if at - _full_logged_at.get(slot, 0) >= 1_000_000:
        _full_logged_at[slot] = at
        log_error(f"admit: conversations-full slot={slot} source={source}")


def log_exception(where: str) -> None:
    """Log the traceback of the current exception, with one log line for each line of the traceback."""
    log_error(f"admit: internal-error in {where}")
    for line in traceback.format_exc().rstrip().splitlines():
        log_error(f"admit:   {line}")
