"""Periodic tasks of a cell: keep radiusd running with the current configuration, read radiusd's log, and report the
cell's status.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from sqlalchemy import Engine

from nac.cellformat.journal.writer import journal_bytes, sync_segments
from nac.cellformat.replica.check import check_replica
from nac.cellformat.replica.files import ReplicaDamaged
from nac.kit.errors import AdmitError, CellTaken
from nac.kit.ids import CellId, SlotNumber
from nac.kit.settings import Settings
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration_source import ConfigurationSource, SlotRow
from radius.agent.radiusd.dropped_sources import (
    UNFINISHED_LOGINS,
    UNSIGNED_REQUESTS,
    WRONG_SECRET,
    DroppedSources,
)
from radius.agent.radiusd.generation import Generations
from radius.agent.radiusd.hang_watch import HangWatch
from radius.agent.radiusd.library_corrections import alarm_uncorrected_libraries
from radius.agent.radiusd.log import LogFollower
from radius.agent.radiusd.memory import limit_bytes
from radius.agent.radiusd.memory_watch import MemoryWatch
from radius.agent.radiusd.packet_limit import PacketLimitWatch
from radius.agent.radiusd.probe import get_statistics
from radius.agent.radiusd.replacement import Radiusd
from radius.agent.radiusd.tls_material import CertificateReload, TlsMaterialStore
from radius.agent.radiusd.tls_session_store import TlsSessionStore
from radius.agent.status import release_cell, report_status, status_document, write_status
from radius.agent.tenant_alarms import (
    EndpointBacklog,
    update_exemption_alarms,
    update_redecision_alarms,
    update_rotation_alarms,
)

log = logging.getLogger(__name__)

STREAMS = ("auth", "acct")
JOURNAL_SYNC_SECONDS = 0.05
TICK_SECONDS = 0.2
STATUS_SECONDS = 1.0
REPORT_SECONDS = 5.0
# A query that takes longer means that the database hangs.
DATABASE_HANG_SECONDS = 2.0
# Pause before a failed configuration is tried again, because a port may be free by then. Doubles up to the maximum.
RETRY_SECONDS, MAX_RETRY_SECONDS = 5.0, 60.0
# Space for one journal segment, in bytes.
LOW_DISK_BYTES = 64 << 20
REPLICA_CHECK_SECONDS = 10.0
SESSION_STORE_SECONDS = 10.0
OLD_KEYS_SECONDS = 600.0
# If fewer slots than this are free, the agent prepares the slots of departed tenants for new tenants.
MIN_FREE_SLOTS = 3
_MAX_LISTED = 10


class CellMaintenance:
    def __init__(
        self,
        settings: Settings,
        paths: CellPaths,
        *,
        cell_id: CellId,
        engine: Engine,
        directory: ConfigurationSource,
        generations: Generations,
        radiusd: Radiusd,
        alarms: Alarms,
        serials: Callable[[], Mapping[int, str]],
        position_at: Callable[[], float | None],
        counted: Mapping[str, Counter[str]],
        backlog: Mapping[str, Callable[[], int]],
        rebuild_replica: Callable[[], None],
        verifier_pid: Callable[[], int],
        shipped_until: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._cell_id = cell_id
        self._engine = engine
        self._directory = directory
        self._generations = generations
        self._radiusd = radiusd
        self._alarms = alarms
        self._serials = serials
        self._position_at = position_at
        # Counters of each part of the agent, by name of the part. The name becomes a prefix of the counter's name.
        self._counted = counted
        self._backlog = backlog
        self._rebuild_replica = rebuild_replica
        self._verifier_pid = verifier_pid
        self._shipped_until = shipped_until
        self._materials = TlsMaterialStore(paths)
        self._sessions = TlsSessionStore(paths, alarms, slots=settings.cell_slots)
        self._memory = MemoryWatch(radiusd, alarms, limit_bytes=limit_bytes(settings), is_quiet=self.is_quiet)
        self.watch_memory = self._memory.run
        self._hang = HangWatch(radiusd, alarms, journal_size=self._journal_size)
        self._baking = CertificateReload(self.is_quiet)
        self._waiting = EndpointBacklog(engine, cell_id, alarms)
        self._signs_of_damage = 0
        self._replica_checked_at = float("-inf")
        self._log_counts: Counter[str] = Counter()
        self._follower = LogFollower(paths.radiusd_log, self._log_counts)
        self._dropped = [
            DroppedSources(engine, cell_id, alarms, cause, partial(self._follower.take, cause.log_name))
            for cause in (WRONG_SECRET, UNSIGNED_REQUESTS, UNFINISHED_LOGINS)
        ]
        alarm_uncorrected_libraries(alarms)
        self._packet_limit = PacketLimitWatch(alarms, settings.cell_tenant_packets_per_second)
        self._counters: Counter[str] = Counter()
        # Whether radiusd answered the last probe, whether the last status report was stored in the database, and since
        # when a query has been running.
        self.hears = True
        self._reported = False
        self._asking_since: float | None = None
        self._retry_at = float("inf")
        self._retry_seconds = RETRY_SECONDS
        self.configuration_changed = threading.Event()
        self.configuration_changed.set()

    def run(self, stop: threading.Event) -> None:
        """Run the tasks that must not wait for the database."""
        chores = {
            "disk": (STATUS_SECONDS, self._check_disk),
            "status": (STATUS_SECONDS, self._write_status),
            "keys": (OLD_KEYS_SECONDS, self._remove_old_keys),
            "sessions": (SESSION_STORE_SECONDS, self._sessions.tidy),
        }
        due = dict.fromkeys(chores, 0.0)
        while not stop.wait(TICK_SECONDS):
            self._radiusd.tick()
            self._follow_log()
            self._check_suspect_replica()
            now = time.monotonic()
            for name, (seconds, chore) in chores.items():
                if now >= due[name]:
                    due[name] = now + seconds
                    chore()
        self._write_status()

    def follow_database(self, stop: threading.Event) -> None:
        """Report the agent's state, and apply changes of radiusd's configuration.

        Runs in a separate thread, because a query may hang. Raises CellTaken.
        """
        due = 0.0
        while not stop.wait(TICK_SECONDS):
            if self._reported and (self.configuration_changed.is_set() or time.monotonic() >= self._retry_at):
                self._apply_configuration()
            elif self._reported and self._should_reload_certificates():
                self._apply_configuration(bake=True)
            if time.monotonic() >= due:
                due = time.monotonic() + REPORT_SECONDS
                self._report()
        if self._reported:
            with suppress(AdmitError):
                release_cell(self._engine, self._cell_id)

    @property
    def _database(self) -> bool:
        since = self._asking_since
        return self._reported and (since is None or time.monotonic() - since < DATABASE_HANG_SECONDS)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._asking_since = time.monotonic()
        try:
            yield
        finally:
            self._asking_since = None

    def sync_journal(self, stop: threading.Event) -> None:
        """Sync the journal to disk every 50 ms.

        A power failure can lose the records of the last 50 ms. A crash of radiusd or the agent loses no records.
        """
        synced: dict[str, dict[str, int]] = {stream: {} for stream in STREAMS}
        while not stop.wait(JOURNAL_SYNC_SECONDS):
            for stream in STREAMS:
                directory = self._paths.journal / stream
                try:
                    if directory.exists():
                        sync_segments(directory, synced[stream])
                        self._alarms.clear(f"journal-sync-{stream}")
                except OSError as exc:
                    self._alarms.report(f"journal-sync-{stream}", f"The journal cannot be synced to disk: {exc}")

    def is_quiet(self, seconds: float) -> bool:
        """Wait for `seconds`. Returns whether the journal stayed unchanged in this time."""
        before = self._journal_size()
        time.sleep(seconds)
        return self._journal_size() == before

    def _journal_size(self) -> int:
        return sum(
            journal_bytes(self._paths.journal / stream) for stream in STREAMS if (self._paths.journal / stream).exists()
        )

    def _follow_log(self) -> None:
        refused = self._log_counts["journal_refused"]
        for line in self._follower.poll():
            log.warning("radiusd: %s", line)
        if self._log_counts["journal_refused"] != refused:
            self._alarms.report(
                "journal-refused", "The journal is full: accounting is not acknowledged, decisions are not recorded."
            )
        elif self._alarms.age_seconds("journal-refused") > 5:
            self._alarms.clear("journal-refused")

    def _check_suspect_replica(self) -> None:
        """Check the replica after radiusd has died or the module has failed, because a damaged replica can cause these
        failures.
        """
        signs = self._radiusd.restarts + self._radiusd.failed_starts + self._log_counts["internal_error"]
        if signs == self._signs_of_damage or time.monotonic() < self._replica_checked_at + REPLICA_CHECK_SECONDS:
            return
        self._signs_of_damage = signs
        self._replica_checked_at = time.monotonic()
        try:
            check_replica(self._paths.replica)
        except ReplicaDamaged as exc:
            self._alarms.report_event("replica-rebuilt", f"The replica was damaged and is being rebuilt: {exc}")
            self._rebuild_replica()

    def _should_reload_certificates(self) -> bool:
        generation = self._radiusd.generation
        if generation is None:
            return False
        live = self._serials()
        is_hidden = self._generations.hides_certificate(generation, live)
        return self._baking.is_due(generation.facts.baked, live, is_hidden=is_hidden)

    def _apply_configuration(self, *, bake: bool = False) -> None:
        """Restart radiusd if the configuration in the database differs from the configuration of the running radiusd.

        If `bake` is true, restarts radiusd in any case, to load the current certificates.
        """
        self.configuration_changed.clear()
        self._retry_at = float("inf")
        try:
            self._exchange_if_needed(bake=bake)
            self._alarms.clear("configuration")
        except (AdmitError, OSError, LookupError) as exc:
            self._alarms.report("configuration", f"The new radiusd configuration cannot be read: {exc}")
            self._reported = False
            self.configuration_changed.set()

    def _read_slots(self) -> tuple[list[SlotRow], list[SlotNumber]]:
        """Return the slots (port pairs) to configure, and the numbers of slots with a new secret.

        A slot gets a new secret after its tenant has left.
        """
        count = self._settings.cell_slots
        with self._asking():
            slots = self._directory.slots(count=count)
            if sum(slot.status == "free" for slot in slots) >= MIN_FREE_SLOTS:
                return slots, []
            renewed = self._directory.renew_retired(count=count)
            return self._directory.slots(count=count) if renewed else slots, renewed

    def _exchange_if_needed(self, *, bake: bool) -> None:
        slots, renewed = self._read_slots()
        self._alarm_unusable_secrets()
        running = self._radiusd.generation
        is_current = running is not None and self._generations.is_in_force(running.facts, slots)
        if is_current and not bake:
            # Clear the alarm about a change that failed and was then reverted in the database.
            self._alarms.clear("exchange")
            with self._asking():
                self._directory.make_ready(slots)
                self._directory.note_open(slots)
            return
        log.info("restarting radiusd for %s", "new certificates" if is_current else "a new configuration")
        trouble = self._radiusd.exchange(
            slots, self._serials(), status_port=self._settings.cell_ports.stop, is_quiet=self.is_quiet
        )
        if trouble:
            log.error("the new configuration is not in force: %s", trouble)
            self._alarms.report("exchange", f"The new radiusd configuration is not in force: {trouble}")
            self._retry_at = time.monotonic() + self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
            return
        self._retry_seconds = RETRY_SECONDS
        self._alarms.clear("exchange")
        with self._asking():
            self._directory.free(renewed)
            self._directory.make_ready(slots)
            self._directory.note_open(slots)

    def _alarm_unusable_secrets(self) -> None:
        whose = self._directory.unusable_secrets
        if not whose:
            self._alarms.clear("unusable-secret")
            return
        more = f" and {len(whose) - _MAX_LISTED} more" if len(whose) > _MAX_LISTED else ""
        names = f"{', '.join(whose[:_MAX_LISTED])}{more}"
        self._alarms.report("unusable-secret", f"radiusd cannot use the RADIUS secret of {names}. Set another secret.")

    def _remove_old_keys(self) -> None:
        try:
            self._materials.remove_old_server_keys(self._serials())
        except OSError as exc:
            log.error("keys of old server certificates cannot be removed: %s", exc)

    def _check_disk(self) -> None:
        """Check the free disk space. radiusd cannot report a full disk, because its log is on the same disk."""
        disk = os.statvfs(self._paths.journal)
        free = disk.f_bavail * disk.f_frsize
        if free < LOW_DISK_BYTES:
            self._alarms.report(
                "disk-low",
                f"{free / (1 << 20):.1f} MB are free on the disk of the cell. When the disk is full, accounting is "
                "not acknowledged and decisions are not recorded.",
            )
        else:
            self._alarms.clear("disk-low")

    def _write_status(self) -> None:
        running, generation = self._radiusd.running, self._radiusd.generation
        serving = running is not None and process.is_alive(running)
        counters = Counter({f"radiusd_log_{name}": count for name, count in self._log_counts.items()})
        counters["endpoints_waiting"] = self._waiting.count
        counters["radiusd_restarts"] = self._radiusd.restarts
        counters["radiusd_failed_starts"] = self._radiusd.failed_starts
        counters["radiusd_renewals"] = self._radiusd.renewals
        for part, counts in self._counted.items():
            counters.update({f"{part}_{name}": count for name, count in counts.items()})
        if serving and generation is not None:
            status = generation.facts.status
            counted = get_statistics("127.0.0.1", status.port, status.secret, seconds=0.5)
            serving = counted is not None
            counters.update(counted or {})
            self._packet_limit.look(counted or {})
            self._hang.look(answers=serving)
        self.hears = serving
        self._counters = counters
        document = status_document(
            state="serving" if serving else "down",
            cell=self._settings.cell_name,
            radiusd_pid=running.pid if running is not None else None,
            verifier_pid=self._verifier_pid() or None,
            slots=len(generation.facts.endpoints) if generation is not None else 0,
            tenants=len(self._serials()),
            position_at=self._position_at(),
            database=self._database,
            memory=self._memory.document(),
            backlog={stream: measure() for stream, measure in self._backlog.items()},
            counters=counters,
            alarms=self._alarms.standing(),
        )
        try:
            write_status(self._paths.status, document)
        except OSError as exc:
            log.error("status.json cannot be written: %s", exc)

    def _report(self) -> None:
        try:
            with self._asking():
                self._waiting.look()
                update_redecision_alarms(self._engine, self._cell_id, self._alarms)
                for each in self._dropped:
                    each.report()
                update_rotation_alarms(self._engine, self._cell_id, self._alarms)
                update_exemption_alarms(self._engine, self._cell_id, self._alarms)
                shipped = self._shipped_until()
                alarms = self._alarms.list_for_report()
                report_status(self._engine, self._cell_id, self._counters, alarms, shipped_until=shipped)
        except CellTaken:
            raise
        except AdmitError as exc:
            if self._reported:
                log.warning("the database does not respond: %s", exc)
            self._reported = False
        else:
            self._alarms.mark_reported(alarms)
            self._reported = True
