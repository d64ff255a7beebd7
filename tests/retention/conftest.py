"""Tenants with rows of many days in every log, and single runs of retention at a chosen time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, Table, insert, inspect, select, text, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.retention.clock import ClockReading
from nac.logs.retention.enforcement import EnforcementResult, enforce_retention
from nac.logs.retention.plan import midnight
from nac.logs.retention.row_deletion import DeletionWindow
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database
from tests.row_snapshots import snapshotted

DAY = timedelta(days=1)
ALWAYS = DeletionWindow(time(0), time.max)
TABLES = {
    "auth": ("auth_log", "at"),
    "accounting": ("accounting_log", "at"),
    "sessions": ("session_history", "stopped_at"),
    "usage": ("usage_hours", "hour"),
    "coa": ("coa_requests", "created_at"),
}
Rows = set[tuple[str, TenantId, date]]


@dataclass
class Logs:
    database: Database
    owner: Engine
    app: Engine
    worker: Engine
    tenants: dict[str, TenantId]
    now: datetime
    exports: Path

    @property
    def today(self) -> date:
        return self.now.date()

    def ago(self, days: int) -> date:
        return self.today - days * DAY

    def sql(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        """Execute a statement as the owner of the database."""
        with psycopg.connect(self.database.owner_url) as connection:
            found = connection.execute(statement, given or None)
            return found.fetchall() if found.description else []

    def scope(self, engine: Engine | None = None, *, tenant: str = "alpha") -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self.tenants[tenant]), engine=engine or self.app)

    def end(self, tenant: str, *steps: Callable[..., object]) -> None:
        """Delete or purge a tenant."""
        with session_scope(PlatformScope(), engine=self.app) as session:
            for step in steps:
                step(session, actor=ACTOR, tenant_id=self.tenants[tenant])

    def partition(self, *days: date, logs: Sequence[str] = ("auth", "accounting", "sessions", "usage")) -> None:
        """Create a partition of these logs for each day. The log `coa` has no partitions."""
        parents = [TABLES[log][0] for log in logs]
        names = {f"{parent}_{day:%Y%m%d}": (parent, day) for parent in parents for day in days}
        there = {name for (name,) in self.sql("SELECT relname FROM pg_class WHERE relname = ANY(%s)", list(names))}
        create = [
            # The lock of autovacuum would delay the deletion of a day until the next run.
            f"CREATE TABLE {name} PARTITION OF {parent} FOR VALUES FROM ('{day}') TO ('{day + DAY}')"
            f" WITH (autovacuum_enabled = off); ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;"
            for name, (parent, day) in names.items()
            if name not in there
        ]
        self.sql("".join(create))

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Write as the owner. When the block ends, the statistics include the inserts at once, not a second later."""
        with self.owner.connect() as connection, Session(connection) as session:
            yield session
            session.commit()
            session.execute(text("SELECT pg_stat_force_next_flush()"))
            session.commit()

    def add(self, log: str, tenant: str, *days: date, rows: int = 1, **values: Any) -> None:
        parent, key = TABLES[log]
        with self.writing() as session:
            for number, day in ((number, day) for day in days for number in range(rows)):
                at = datetime.combine(day, time(13, number % 60, number // 60 % 60), UTC)
                over = {"state": "acknowledged", "ended_at": at} if log == "coa" else {}
                make_row(session, Base.metadata.tables[parent], self.tenants[tenant], **{key: at} | over | values)

    def add_many(self, tenant: str, day: date, rows: int, *, detail: str = "") -> None:
        """Insert into the auth log with one statement."""
        given = {"day": midnight(day), "tenant": self.tenants[tenant], "detail": detail, "rows": rows}
        with self.writing() as session:
            session.execute(
                text(
                    "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, detail)"
                    " SELECT :day + n * interval '1 millisecond', :tenant, 1, 'mab', true, 'x', :detail"
                    " FROM generate_series(1, :rows) n"
                ),
                given,
            )

    def choose(self, tenant: str, log: str, **values: Any) -> None:
        with Session(self.owner) as session, session.begin():
            table = Base.metadata.tables["retention_settings"]
            session.execute(insert(table).values(tenant_id=self.tenants[tenant], log=log, **values))

    def change(self, tenant: str, log: str, **values: Any) -> None:
        table = Base.metadata.tables["retention_settings"]
        mine = table.c.tenant_id == self.tenants[tenant], table.c.log == log
        with Session(self.owner) as session, session.begin():
            session.execute(update(table).where(*mine).values(values))

    def take_effect(self) -> None:
        """Make all settings effective, as if they were announced long ago."""
        self.sql("DELETE FROM retention_terms")

    def hold(self, tenant: str, **values: Any) -> None:
        with Session(self.owner) as session, session.begin():
            make_row(session, Base.metadata.tables["retention_holds"], self.tenants[tenant], **values)

    def enforce(self, *, window: DeletionWindow = ALWAYS, seconds: float = 60, **given: Any) -> EnforcementResult:
        # Sizes that the test measures are later than the test's current time.
        given = {"measure_every": -DAY, "at": ClockReading(self.now, is_trusted=True), "engine": self.worker} | given
        given = {"folder": ExportFolder(self.exports), "most_days": 1_000} | given
        return enforce_retention(window=window, seconds=seconds, **given)

    def forget(self) -> None:
        """Delete all rows, settings, holds and sizes, but not the tenants."""
        tables = ["retention_settings", "retention_holds", "log_sizes", "retention_terms", "log_measures"]
        self.sql("".join(f"DELETE FROM {table};" for table in [*(parent for parent, _ in TABLES.values()), *tables]))

    def there(self, *logs: str) -> Rows:
        found: Rows = set()
        with Session(self.owner) as session:
            for log in logs or TABLES:
                parent, key = TABLES[log]
                table: Table = Base.metadata.tables[parent]
                for tenant_id, at in session.execute(select(table.c.tenant_id, table.c[key])):
                    found.add((log, tenant_id, at.astimezone(UTC).date()))
        return found

    def partitions(self, log: str = "auth") -> set[date]:
        rows = self.sql(
            "SELECT to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') FROM pg_inherits"
            " WHERE inhparent = %s::regclass AND inhrelid::regclass::text ~ '[0-9]$'",
            TABLES[log][0],
        )
        return {day for (day,) in rows}

    def scalars(self, model: type[Base]) -> list[Any]:
        with Session(self.owner) as session:
            return list(session.scalars(select(model).order_by(*inspect(model).primary_key)))


@pytest.fixture
@snapshotted
def tenants(app_engine: Engine, platform: Platform) -> dict[str, TenantId]:
    return {slug: make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo", "carol")}


@pytest.fixture
def logs(
    database: Database,
    owner_engine: Engine,
    app_engine: Engine,
    worker_engine: Engine,
    tenants: dict[str, TenantId],
    tmp_path: Path,
) -> Iterator[Logs]:
    made = Logs(database, owner_engine, app_engine, worker_engine, tenants, utc_now(), tmp_path / "exports")
    yesterday = made.ago(1)
    yield made
    old = [(TABLES[log][0], day) for log in TABLES.keys() - {"coa"} for day in made.partitions(log) if day < yesterday]
    made.sql("".join(f"DROP TABLE {parent}_{day:%Y%m%d};" for parent, day in old))


class Ticking:
    """A clock that advances by one second at each read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
