"""A tenant with unusual rows, another tenant, and a worker that continues one job at a time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.logs.exports import runner, service, standing_exports
from nac.logs.exports.export_folder import ExportFolder
from nac.models import ExportJob
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.row_snapshots import snapshotted

DAY = timedelta(days=1)
NASTY = (
    *("", "plain", '=1+1"', "+a", "-b", "@c", "\ttab", "\rcr", "'quote", "''two", "\uff1dwide"),
    *('say "hi"', "a,b;c", "two\r\nlines", "\n", "N\u0301ull NULL \\N \\.", "\u202eright\u2028to left", "\U0001f600"),
    *("\u0001\u001b[2J\x7f", "ends with \\", "\ufeffbom", "null", "x" * 5_000),
)


@dataclass
class Exports:
    owner: Engine
    app: Engine
    worker: Engine
    folder: ExportFolder
    alpha: TenantId
    bravo: TenantId

    @property
    def today(self) -> datetime:
        return datetime.combine(utc_now().date(), time(), UTC)

    def add(self, table: str, at: datetime, *, tenant: TenantId | None = None, **values: Any) -> None:
        key = {"session_history": "stopped_at", "sessions": "stopped_at", "usage_hours": "hour"}.get(table, "at")
        with Session(self.owner) as session, session.begin():
            make_row(session, Base.metadata.tables[table], tenant or self.alpha, **{key: at} | values)

    def scope(self, engine: Engine | None = None) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self.alpha), engine=engine or self.app)

    def do(self, verb: Callable[..., Any], **given: Any) -> Any:
        """Call a function of the service for alpha, in a transaction."""
        with self.scope() as session:
            return verb(session, actor=ACTOR, tenant_id=self.alpha, **given)

    def start(self, log: str, form: str, **given: Any) -> int:
        period = {"since": self.today - 3 * DAY, "until": self.today + DAY}
        return self.do(service.start_export, log=log, format=form, **{**period, "most_bytes": 0, **given}).id

    def order(self, log: str, form: str, *days: datetime) -> None:
        """Create the jobs of days that alpha exports before their deletion."""
        with self.scope(self.worker) as session:
            standing_exports.create_jobs(session, self.alpha, log, [day.date() for day in days], format=form)

    def run(self, *, seconds: float = 60, least_free_bytes: int = 0, tenant_max_bytes: int = 0) -> int | None:
        limits = runner.ExportLimits(least_free_bytes, seconds, tenant_max_bytes)
        return runner.run_next_export(self.folder, limits, engine=self.worker)

    def job(self, job_id: int) -> ExportJob:
        with Session(self.owner, expire_on_commit=False) as session:
            return session.scalars(select(ExportJob).where(ExportJob.id == job_id)).one()

    def due(self, job_id: int) -> None:
        """Make the job due, as after its worker's lease or its retry delay."""
        with Session(self.owner) as session, session.begin():
            session.execute(update(ExportJob).where(ExportJob.id == job_id).values(due_at=utc_now()))

    def measure(self) -> None:
        """Measure the authentication log of yesterday, which has a partition, and of the days without a partition."""
        with Session(self.owner) as session, session.begin():
            for day in (None, (self.today - DAY).date()):
                session.execute(select(func.measure_log("auth", day)))

    def path(self, job_id: int) -> Path:
        return self.folder.job_path(self.alpha, job_id)

    def files(self, job_id: int) -> list[Path]:
        return [self.path(job_id) / part["file"] for part in self.job(job_id).parts]

    def prune(self, *, later: timedelta = timedelta(0), kept: timedelta = DAY) -> int:
        return runner.prune_exports(self.folder, kept=kept, now=utc_now() + later, engine=self.worker)


@pytest.fixture
@snapshotted
def tenants(app_engine: Engine, platform: Platform) -> list[TenantId]:
    return [make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo")]


@pytest.fixture
def exports(
    owner_engine: Engine, app_engine: Engine, worker_engine: Engine, tenants: list[TenantId], tmp_path: Path
) -> Exports:
    return Exports(owner_engine, app_engine, worker_engine, ExportFolder(tmp_path / "exports"), *tenants)
