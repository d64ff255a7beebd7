"""The installation that a benchmark measures: its addresses, the CPU time of its processes, and its stored rows."""

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.orm import Session

from loadtest.processes import BenchError, ProcessTree
from loadtest.tally import RunResult
from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.certificates.signing import SigningContext
from nac.kit.db import PlatformScope, make_engine, require_current_schema, session_scope
from nac.kit.ids import CellId, TenantId
from nac.kit.settings import Settings
from nac.models import AccountingLog, AuthLog, JournalPosition
from nac.models.log import ACCOUNTING_LOG_ID
from nac.tenancy.cells import service as cells

STREAMS = ("auth", "acct")
_SETTLE_SECONDS = 180
# Names of the settings that an `Installation` needs.
REQUIRED_SETTINGS = ("DATABASE_URL", "DATABASE_OWNER_URL", "MASTER_KEY_FILE")


class Installation:
    """The installation that `./admit up` started. Close the object, or use it in a `with` block."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Services use the database role of the API. Only the owner role can count rows of several tenants, and delete
        # the logs of a benchmark.
        self.engine = make_engine(settings.database_url, application_name="admit-bench")
        self.owner = make_engine(
            settings.database_owner_url, application_name="admit-bench", pool_size=1, statement_seconds=3_600
        )
        require_current_schema(self.engine)
        self.signing = SigningContext.from_settings(settings)
        self.sealer = self.signing.sealer
        self.cell_id = self._find_cell()
        self._journals = {stream: JournalReader(settings.cell_dir / "journal" / stream) for stream in STREAMS}

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()
        self.engine.dispose()
        self.owner.dispose()

    def __enter__(self) -> "Installation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find_cell(self) -> CellId:
        with session_scope(PlatformScope(), engine=self.engine) as session:
            for cell in cells.list_cells(session):
                if cell.name == self.settings.cell_name:
                    return cell.id
        raise BenchError(f"cell {self.settings.cell_name!r} has never run: start it with ./admit up")

    def processes(self) -> Mapping[str, ProcessTree]:
        radiusd = self.radiusd_pid()
        return {
            "radiusd": ProcessTree(radiusd),
            "agent": ProcessTree(_lock_holder(self.settings.cell_dir / "agent.lock"), without=(radiusd,)),
            "postgres": ProcessTree(self._postmaster()),
        }

    def radiusd_pid(self) -> int:
        return int(self._radiusd()["pid"])

    def baked_slots(self) -> set[int]:
        """Return the slots (tenants of the cell) whose server certificate radiusd loaded at its start."""
        module = Path(str(self._radiusd()["config_directory"])) / "module.json"
        return {int(slot) for slot in json.loads(module.read_text())["baked_certificates"]}

    def _radiusd(self) -> dict[str, int | str]:
        try:
            return dict(json.loads((self.settings.cell_dir / "radiusd.json").read_text()))
        except FileNotFoundError as error:
            raise BenchError("the cell has no radiusd: see ./admit status") from error

    def _postmaster(self) -> int:
        with session_scope(PlatformScope(), engine=self.engine) as session:
            backend = session.scalars(select(func.pg_backend_pid())).one()
        try:
            stat = Path(f"/proc/{backend}/stat").read_text()
        except FileNotFoundError as error:
            raise BenchError("PostgreSQL runs on another machine: its CPU time cannot be measured from here") from error
        return int(stat.rpartition(")")[2].split()[1])

    def backlog_bytes(self) -> dict[str, int]:
        """Return for each journal the size of the records that are not in the database yet."""
        with session_scope(PlatformScope(), engine=self.owner) as session:
            rows = session.scalars(select(JournalPosition).where(JournalPosition.cell_id == self.cell_id)).all()
            positions = {row.stream: SegmentPosition(row.segment, row.offset) for row in rows}
        return {
            stream: journal.backlog_bytes(positions.get(stream, SegmentPosition()))
            for stream, journal in self._journals.items()
        }

    def wait_until_shipped(self) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while any(backlog := self.backlog_bytes().values()):
            if time.monotonic() > deadline:
                raise BenchError(f"{sum(backlog):,} bytes of the journal do not reach the database: see ./admit status")
            time.sleep(0.01)

    def accounting_rows_ever(self) -> int:
        """Return the number of rows ever inserted into accounting_log.

        The table's sequence has this number; count(*) would take seconds.
        """
        with session_scope(PlatformScope(), engine=self.owner) as session:
            return session.scalars(select(func.pg_sequence_last_value(ACCOUNTING_LOG_ID.name))).one() or 0


class StoredRows:
    """Counts the requests that got a response, and checks that the database has one row for each of these requests."""

    def __init__(self, installation: Installation, tenants: Collection[TenantId]) -> None:
        self._installation = installation
        self._tenants = tenants
        self._answered = dict.fromkeys(STREAMS, 0)
        self._unanswered = dict.fromkeys(STREAMS, 0)

    def settle(self, run: RunResult) -> None:
        """Count the requests of `run`, and wait until the database has the rows of these requests."""
        for kind, tally in run.tallies.items():
            stream = "acct" if kind.startswith("acct") else "auth"
            self._answered[stream] += tally.finished - tally.unanswered
            self._unanswered[stream] += tally.unanswered
        self._installation.wait_until_shipped()

    def verify(self) -> dict[str, tuple[int, int]]:
        """Return two numbers for each stream: of stored rows, and of requests that got a response.

        A request without a response may or may not have a row. Raises BenchError if the numbers show a lost or
        duplicate row.
        """
        found = {}
        with session_scope(PlatformScope(), engine=self._installation.owner) as session:
            for stream, table in (("auth", AuthLog), ("acct", AccountingLog)):
                rows = _count(session, table, self._tenants)
                answered = self._answered[stream]
                if not answered <= rows <= answered + self._unanswered[stream]:
                    raise BenchError(f"{stream}: {answered:,} requests were answered, but {rows:,} rows are stored")
                found[stream] = (rows, answered)
        return found


def _count(session: Session, table: type[AuthLog] | type[AccountingLog], tenants: Collection[TenantId]) -> int:
    return session.scalars(select(func.count()).select_from(table).where(table.tenant_id.in_(tenants))).one()


def delete_logs(owner: Engine, tenants: Collection[TenantId]) -> None:
    with session_scope(PlatformScope(), engine=owner) as session:
        for table in (AuthLog, AccountingLog):
            session.execute(delete(table).where(table.tenant_id.in_(tenants)))


def _lock_holder(path: Path) -> int:
    """Return the id of the process that holds the lock of a file (flock; /proc/locks, proc(5))."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return int(fields[4])
    raise BenchError("the cell's agent does not run: see ./admit status")
