"""Tenants with rows of many days in every log, and one turn of retention at a time of the test's choosing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, Table, insert, select
from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.db.base import Base
from nac.ids import TenantId
from nac.retention.deleting import Window
from nac.retention.enforcing import Enforced, enforce
from tests.factories.rows import make_row
from tests.factories.tenancy import make_platform, make_tenant
from tests.postgres import Database

DAY = timedelta(days=1)
ALWAYS = Window(time(0), time.max)
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

    @property
    def today(self) -> date:
        return self.now.date()

    def ago(self, days: int) -> date:
        return self.today - days * DAY

    def partition(self, *days: date) -> None:
        """Of every log, as if it had been made when the day came."""
        with psycopg.connect(self.database.owner_url) as connection:
            for log, day in ((log, day) for log in TABLES if log != "coa" for day in days):
                parent, _ = TABLES[log]
                name = f"{parent}_{day:%Y%m%d}"
                if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
                    names = {"name": sql.Identifier(name), "parent": sql.Identifier(parent)}
                    bounds = {"first": sql.Literal(str(day)), "last": sql.Literal(str(day + DAY))}
                    connection.execute(
                        sql.SQL(
                            "CREATE TABLE {name} PARTITION OF {parent} FOR VALUES FROM ({first}) TO ({last});"
                            "ALTER TABLE {name} ENABLE ROW LEVEL SECURITY"
                        ).format(**names, **bounds)
                    )

    def add(self, log: str, tenant: str, *days: date, rows: int = 1, **values: Any) -> None:
        parent, key = TABLES[log]
        table = Base.metadata.tables[parent]
        with Session(self.owner) as session, session.begin():
            for number, day in ((number, day) for day in days for number in range(rows)):
                at = datetime.combine(day, time(13, number % 60, number // 60 % 60), UTC)
                make_row(session, table, self.tenants[tenant], **{key: at} | values)

    def add_many(self, tenant: str, day: date, rows: int, *, text: str = "") -> None:
        """To the auth log, by one statement."""
        with psycopg.connect(self.database.owner_url) as connection:
            connection.execute(
                "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, detail)"
                " SELECT %s::timestamptz + n * interval '1 millisecond', %s, 1, 'mab', true, 'x', %s"
                " FROM generate_series(1, %s) n",
                (datetime.combine(day, time(), UTC), self.tenants[tenant], text, rows),
            )

    def choose(self, tenant: str, log: str, **values: Any) -> None:
        with Session(self.owner) as session, session.begin():
            table = Base.metadata.tables["retention_settings"]
            session.execute(insert(table).values(tenant_id=self.tenants[tenant], log=log, **values))

    def hold(self, tenant: str, **values: Any) -> None:
        with Session(self.owner) as session, session.begin():
            make_row(session, Base.metadata.tables["retention_holds"], self.tenants[tenant], **values)

    def enforce(self, *, window: Window = ALWAYS, seconds: float = 60, **given: Any) -> Enforced:
        self.settle_statistics()
        given = {"measure_every": timedelta(0), "now": self.now, "engine": self.worker} | given
        return enforce(window=window, seconds=seconds, **given)

    def settle_statistics(self) -> None:
        """Counts of inserted rows reach the others when a session has been idle for a moment, or is told to."""
        for engine in (self.owner, self.worker):
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")

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
        with psycopg.connect(self.database.owner_url) as connection:
            rows = connection.execute(
                "SELECT to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') FROM pg_inherits"
                " WHERE inhparent = %s::regclass AND inhrelid::regclass::text ~ '[0-9]$'",
                (TABLES[log][0],),
            ).fetchall()
        return {row[0] for row in rows}

    def scalars(self, model: type[Base]) -> list[Any]:
        with Session(self.owner) as session:
            return list(session.scalars(select(model)))


@pytest.fixture
def logs(
    database: Database, owner_engine: Engine, app_engine: Engine, worker_engine: Engine, cell_engine: Engine
) -> Iterator[Logs]:
    platform = make_platform(app_engine, cell_engine)
    tenants = {slug: make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo", "carol")}
    made = Logs(database, owner_engine, app_engine, worker_engine, tenants, utc_now())
    yield made
    with psycopg.connect(database.owner_url) as connection:
        for log in TABLES.keys() - {"coa"}:
            for day in made.partitions(log):
                if day < made.ago(1):
                    connection.execute(
                        sql.SQL("DROP TABLE {}").format(sql.Identifier(f"{TABLES[log][0]}_{day:%Y%m%d}"))
                    )
