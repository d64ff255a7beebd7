"""Runs one cell.

The agent registers the cell in the database, fills the replica, starts radiusd and keeps all parts running.

If a tenant has moved to this cell, its previous cell may still receive requests. `HandoverShipper` stores the journal
records of these requests in PostgreSQL.
"""

import fcntl
import logging
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO
from uuid import UUID

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from nac.cellformat.replica.records import SlotRecord
from nac.cellformat.replica.writer import ReplicaFull, ReplicaWriter
from nac.engine.dictionary import Dictionary, read_dictionary, to_json
from nac.kit.db import CellScope, driver_connection, make_engine, require_current_schema, session_scope
from nac.kit.errors import AdmitError, CellTaken, SchemaTooNew, SchemaTooOld
from nac.kit.ids import CellId, TenantId
from nac.kit.secrets import MasterKeyFile, Sealer, SecretsError
from nac.kit.settings import Settings
from nac.tenancy.cells import service as cells
from radius.agent.alarms import Alarms, first_error_line
from radius.agent.coa.queue import CoaQueue
from radius.agent.coa.sender import CoaSender
from radius.agent.maintenance import CellMaintenance
from radius.agent.paths import CellPaths, read_identity, write_identity
from radius.agent.pools.maintenance import ClaimsDirectory, PoolMaintenance
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration import RenderError
from radius.agent.radiusd.configuration_source import ConfigurationSource
from radius.agent.radiusd.generation import Generation, Generations
from radius.agent.radiusd.hang_watch import run_watchdog
from radius.agent.radiusd.replacement import Radiusd
from radius.agent.radiusd.tls_material import TlsMaterialStore
from radius.agent.radiusd.verifier_process import VerifierProcess
from radius.agent.replay import replay
from radius.agent.replica.sync import ReplicaSync, open_replica
from radius.agent.shipping.live_feed import LiveFeed
from radius.agent.shipping.live_notes import LiveNotes
from radius.agent.shipping.shipper import Shipper, shipping_engine
from radius.agent.shipping.streams import AccountingStream, AuthStream, Stream

POLL_SECONDS = 2.0
_WAITING_STREAMS = "SELECT DISTINCT stream FROM quarantined_records WHERE cell_id = %s AND handed_over"


class HandoverShipper:
    def __init__(self, cell_id: CellId, engine: Engine, *, url: str, alarms: Alarms) -> None:
        """Create the shipper, which opens its own connections to `url`."""
        self.counters: Counter[str] = Counter()
        self._cell_id = cell_id
        self._engine = engine
        self._url = url
        self._alarms = alarms

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                self.step()
                self._alarms.clear("handed-over")
            except (psycopg.Error, SQLAlchemyError, AdmitError) as exc:
                self._alarms.report(
                    "handed-over",
                    f"Records from the previous cell of a moved tenant are not shipped: {first_error_line(exc)}",
                )

    def step(self) -> None:
        """Ship all waiting records. Raises errors of the database driver."""
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            rows = driver_connection(session).execute(_WAITING_STREAMS, (self._cell_id,)).fetchall()
        streams: tuple[Stream, ...] = (AuthStream(), AccountingStream())
        for stream in streams:
            if (stream.name,) in rows:
                engine = shipping_engine(self._url, stream)
                try:
                    done = replay(stream, cell_id=self._cell_id, engine=engine, handed_over=True)
                finally:
                    engine.dispose()
                self.counters[f"{stream.name}_shipped"] += done.shipped


log = logging.getLogger(__name__)

# FreeRADIUS 3.2.9 and 3.2.10 drop the values that Python returns, except in debug mode. Versions before 3.2.7 are
# vulnerable to BlastRADIUS or lack functions that the module needs.
SUPPORTED_VERSIONS = ("3.2.7", "3.2.8")
DICTIONARY_FILE = Path("/usr/share/freeradius/dictionary")
DATABASE_WAIT_SECONDS = 15.0
# When a cell moves to another machine: longest wait until the old machine's agent ends. A killed agent counts as ended
# after SILENT_SECONDS.
TAKEN_WAIT_SECONDS = cells.SILENT_SECONDS + 10.0
# Time for threads to finish. The supervisor kills the agent after 20 s, and radiusd takes up to 10 s to end.
SHUTDOWN_SECONDS = 5.0


class CellCannotServe(Exception):
    """The cell cannot serve. The message names the cause and the remedy."""


class CellAgent:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._paths = CellPaths(settings.cell_dir)
        self._alarms = Alarms()
        self._materials = TlsMaterialStore(self._paths)
        self._claims = ClaimsDirectory(self._paths.claims)
        self._sealer = Sealer(MasterKeyFile(settings.master_key_file))
        self._engine = make_engine(settings.database_cell_url, application_name="admit-agent")
        self._generations = Generations(settings, self._paths)
        self._radiusd = Radiusd(self._paths, self._generations)
        # Serial number of the server certificate to present, by occupied slot.
        self._serials: Mapping[int, str] = {}
        # Slugs of the cell's tenants, by tenant id.
        self._tenants: Mapping[str, str] = {}
        # Slugs of tenants whose authorities or certificate could not be written.
        self._troubled: set[str] = set()
        self._broken = False
        # The reason, if another machine has taken over the cell.
        self._taken = ""

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set.

        Raises CellCannotServe, RadiusdError, PortTaken or AdmitError if the cell cannot start.
        """
        self._paths.prepare()
        lock = self._take_lock()
        self._claims.begin()
        require_supported_version()
        cell_id, online = self._claim_cell(stop)
        directory = ConfigurationSource(self._engine, cell_id, self._sealer)
        writer = open_replica(self._paths.replica, self._alarms)
        sync = self._make_replica_sync(cell_id, directory, writer)
        if online:
            self._catch_up(sync)
        self._remember_slots(writer.slots())
        self._serve(directory, online=online)
        ended = self._run_threads(cell_id, directory, sync, stop)
        if self._broken:
            # radiusd and the verifier keep serving. The next agent takes them over.
            raise CellCannotServe("A part of the agent failed (see the traceback above). Start the agent again.")
        self._radiusd.stop()
        if ended:
            # Do not close the writer while threads still use it; the end of the process closes it.
            writer.close()
        lock.close()
        if self._taken:
            raise CellCannotServe(self._taken)

    def _catch_up(self, sync: ReplicaSync) -> None:
        try:
            sync.catch_up()
        except ReplicaFull as exc:
            if not sync.complete:
                raise CellCannotServe(f"Cannot fill the replica: {exc}") from exc
            log.warning("cannot update the replica, serving its last content: %s", exc)

    def _take_lock(self) -> TextIO:
        lock = open(self._paths.lock, "w")  # noqa: SIM115  # locked until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise CellCannotServe(f"Another agent uses {self._paths.root}. Stop that agent first.") from exc
        return lock

    def _claim_cell(self, stop: threading.Event) -> tuple[CellId, bool]:
        """Register the cell. Returns the id of the cell, and whether the database responds.

        Without the database, the cell serves from the replica of its last run.
        """
        deadline = time.monotonic() + DATABASE_WAIT_SECONDS
        taken_until = time.monotonic() + TAKEN_WAIT_SECONDS
        known = read_identity(self._paths)
        while True:
            try:
                return self._register(), True
            except (SchemaTooNew, SchemaTooOld):
                raise
            except CellTaken as exc:
                if time.monotonic() > taken_until or stop.is_set():
                    self._stop_leftover_radiusd()
                    raise CellCannotServe(str(exc)) from exc
                log.warning("waiting for the agent on the other machine to end: %s", exc)
                stop.wait(5)
                continue
            except AdmitError as exc:
                trouble = exc
            if known is not None and self._generations.newest() is not None:
                log.warning("the database does not respond (%s); serving from the replica", trouble)
                return known, False
            if time.monotonic() > deadline:
                raise CellCannotServe(f"The database does not respond, and this cell has no replica yet: {trouble}")
            time.sleep(0.5)

    def _stop_leftover_radiusd(self) -> None:
        """Stop a radiusd that still runs on this machine, although the cell has moved to another machine.

        radiusd still runs because its agent was killed.
        """
        self._radiusd.adopt()
        self._radiusd.stop()

    def _register(self) -> CellId:
        require_current_schema(self._engine)
        with session_scope(CellScope(cells.UNREGISTERED_CELL), engine=self._engine) as session:
            cell_id = cells.register_cell(session, name=self._settings.cell_name, host=platform.node())
        with session_scope(CellScope(cell_id), engine=self._engine) as session:
            cells.ensure_slots(
                session,
                cell_id=cell_id,
                count=self._settings.cell_slots,
                first_port=self._settings.cell_first_port,
                seal=self._sealer.seal,
            )
            cells.upload_dictionary(
                session,
                cell_id=cell_id,
                content=to_json(self._dictionary()),
                server_version=process.installed_version(),
            )
        write_identity(self._paths, cell_id)
        return cell_id

    @staticmethod
    def _dictionary() -> Dictionary:
        """Return the attributes of the local radiusd's dictionary.

        Admit's internal attributes are not included, because no reply may contain these attributes.
        """
        return read_dictionary(DICTIONARY_FILE)

    def _make_replica_sync(self, cell_id: CellId, directory: ConfigurationSource, writer: ReplicaWriter) -> ReplicaSync:
        cell_sealer = Sealer(MasterKeyFile.load_or_create(self._paths.key))

        def reseal(sealed: bytes, context: str) -> bytes:
            return cell_sealer.seal(self._sealer.open(sealed, context), context)

        def place_materials(session: Session, slots: Mapping[int, SlotRecord]) -> None:
            for number, slot in slots.items():
                self._place_material(directory, session, number, slot)
            for gone in self._troubled - {slot.slug for slot in slots.values()}:
                self._alarms.clear(f"material-{gone}")
                self._troubled.discard(gone)
            for number in range(self._settings.cell_slots):
                if number not in slots:
                    self._materials.clear(number)
            self._remember_slots(slots)

        return ReplicaSync(
            cell_id,
            self._engine,
            writer,
            dictionary=self._dictionary(),
            reseal=reseal,
            alarms=self._alarms,
            before_commit=place_materials,
            claims_of=self._claims.name,
        )

    def _remember_slots(self, slots: Mapping[int, SlotRecord]) -> None:
        self._serials = {number: slot.server_certificate for number, slot in slots.items()}
        self._tenants = {slot.tenant_id: slot.slug for slot in slots.values()}

    def _place_material(self, directory: ConfigurationSource, session: Session, number: int, slot: SlotRecord) -> None:
        """Write a tenant's authorities and certificate.

        If this fails, raises an alarm and continues with the changes of other tenants.
        """
        alarm = f"material-{slot.slug}"
        try:
            self._materials.place(
                directory.material(session, number, TenantId(UUID(slot.tenant_id)), slot.server_certificate)
            )
        except (LookupError, SecretsError, ValueError, OSError) as exc:
            log.exception("cannot write the authorities or server certificate of tenant %s", slot.slug)
            self._troubled.add(slot.slug)
            what = f"Tenant {slot.slug} has no usable authorities or server certificate: {exc}"
            self._alarms.report(alarm, what, tenant=slot.tenant)
        else:
            self._alarms.clear(alarm)

    def _serve(self, directory: ConfigurationSource, *, online: bool) -> None:
        if self._radiusd.adopt():
            return
        for number in range(self._settings.cell_slots):
            self._materials.prepare_slot(number)
        self._materials.ensure_placeholder()
        generation = (self._first_generation(directory) if online else None) or self._generations.newest()
        if generation is None:
            raise CellCannotServe(
                "No radiusd configuration exists yet. Admit cannot create one, because the database does not respond."
            )
        self._radiusd.start(generation)
        self._generations.remove_old(generation.directory)

    def _first_generation(self, directory: ConfigurationSource) -> Generation | None:
        """Prepare the configuration with which radiusd starts.

        Returns None if the new configuration fails and an earlier configuration exists.
        """
        count = self._settings.cell_slots
        renewed = directory.renew_retired(count=count)
        try:
            generation = self._generations.create_checked(
                directory.slots(count=count), self._serials, status_port=self._settings.cell_ports.stop
            )
        except (RenderError, process.RadiusdError, OSError) as exc:
            if self._generations.newest() is None:
                raise
            log.exception("the new configuration fails; starting the previous one")
            self._alarms.report("exchange", f"The new radiusd configuration is not in force: {exc}")
            return None
        directory.free(renewed)
        return generation

    def _run_threads(
        self, cell_id: CellId, directory: ConfigurationSource, sync: ReplicaSync, stop: threading.Event
    ) -> bool:
        """Run the threads until `stop` is set or until a thread fails. Returns whether all threads have ended."""
        settings = self._settings
        live = self._live_feed()
        decisions = AuthStream(live)
        sessions = AccountingStream(lambda: sync.session_counts.counted, live, lambda: keeper.hears)
        streams: tuple[Stream, ...] = (decisions, sessions)
        shippers = {
            stream.name: Shipper(
                stream,
                cell_id=cell_id,
                host=platform.node(),
                engine=shipping_engine(self._settings.database_cell_url, stream),
                journal=self._paths.journal,
                alarms=self._alarms,
            )
            for stream in streams
        }
        ended = [live.offer_requests] if live else []
        coa = CoaSender(
            CoaQueue(self._engine, cell_id, self._sealer, *ended),
            self._engine,
            listen_address=settings.listen_address,
            dictionary=self._dictionary(),
            alarms=self._alarms,
            reach=settings.outbound_reach,
        )
        pools = PoolMaintenance(
            cell_id,
            self._engine,
            self._claims,
            alarms=self._alarms,
            shipped_until=lambda: min(shipper.shipped_until for shipper in shippers.values()),
            read_at=lambda: sync.read_at,
            given_twice=lambda: decisions.addresses_given_twice,
        )
        handed_over = HandoverShipper(cell_id, self._engine, url=settings.database_cell_url, alarms=self._alarms)
        verifier = VerifierProcess(
            settings.verifier_port,
            self._paths,
            self._alarms,
            reject_delay_seconds=settings.reject_delay_seconds,
            reach=settings.outbound_reach,
            is_left=lambda: self._broken,
        )
        keeper = CellMaintenance(
            self._settings,
            self._paths,
            cell_id=cell_id,
            engine=self._engine,
            directory=directory,
            generations=self._generations,
            radiusd=self._radiusd,
            alarms=self._alarms,
            serials=lambda: self._serials,
            position_at=lambda: sync.caught_up_at,
            counted={
                "verifier": verifier.counters,
                "coa": coa.counters,
                **({"live": live.counters} if live else {}),
                "pools": pools.counters,
                "handed_over": handed_over.counters,
                **{name: shipper.counters for name, shipper in shippers.items()},
            },
            backlog={name: shipper.backlog_bytes for name, shipper in shippers.items()},
            rebuild_replica=sync.rebuild_wanted.set,
            verifier_pid=lambda: verifier.pid,
            shipped_until=lambda: min(shipper.shipped_until for shipper in shippers.values()),
        )
        sync.on_configuration = keeper.configuration_changed.set
        works = {
            "sync": sync.run,
            **{f"ship-{name}": shipper.run for name, shipper in shippers.items()},
            "journal-sync": keeper.sync_journal,
            "database": keeper.follow_database,
            "memory": keeper.watch_memory,
            "verifier": verifier.run,
            "coa": coa.run,
            "pulse": run_watchdog,
            "handed-over": handed_over.run,
            **({"live": live.run, "live-notes": LiveNotes(self._engine, cell_id, live).run} if live else {}),
            "pools": pools.run,
        }
        threads = [
            threading.Thread(target=self._run_guarded, args=(work, stop), name=name, daemon=True)
            for name, work in works.items()
        ]
        for thread in threads:
            thread.start()
        self._run_guarded(keeper.run, stop)
        # Do not wait longer, because the database may hang. Records that are not shipped stay in the journal.
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _live_feed(self) -> LiveFeed | None:
        if not self._settings.redis_url:
            log.info("ADMIT_REDIS_URL is not set: this cell sends no live events")
            return None
        return LiveFeed(self._settings.redis_url, lambda: self._tenants, cell=self._settings.cell_name)

    def _run_guarded(self, work: Callable[[threading.Event], None], stop: threading.Event) -> None:
        """Run one part of the agent in a thread of its own. If the part fails, the whole agent ends."""
        try:
            work(stop)
        except CellTaken as exc:
            # Two machines must not serve one cell, so radiusd ends, too.
            self._taken = str(exc)
            stop.set()
        except Exception:  # house-rule: the edge of a thread; the agent ends and logs it
            log.exception("a part of the agent failed")
            self._broken = True
            stop.set()


def require_supported_version() -> None:
    version = process.installed_version()
    if version not in SUPPORTED_VERSIONS and not _is_newer_supported(version):
        raise CellCannotServe(
            f"FreeRADIUS {version} is not supported. Install {' or '.join(SUPPORTED_VERSIONS)} (or 3.2.11 and later) "
            "from bookworm-backports."
        )


def _is_newer_supported(version: str) -> bool:
    """Whether radiusd is version 3.2.11 or a later 3.2 version, in which the fault of 3.2.9 is fixed."""
    try:
        numbers = tuple(int(part) for part in version.split("."))
    except ValueError:
        return False
    return (3, 2, 11) <= numbers < (3, 3)
