"""The progress of bulk changes, visible to other connections during the single transaction."""

from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.core.jobs import runner
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Job
from nac.onboarding.imports import jobs as imports
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.job_runs import run_next
from tests.row_snapshots import snapshotted

_ROWS = 2_500
_MACS = [f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}" for number in range(_ROWS)]
_ENDPOINTS = [{"mac": mac, "name": f"Device {mac}"} for mac in _MACS]


@pytest.fixture
@snapshotted
def tenant_id(app_engine: Engine, platform: Platform) -> TenantId:
    return TenantId(make_tenant(app_engine, platform, "alpha").id)


def test_bulk_changes_report_their_progress(app_engine, worker_engine, owner_engine, tenant_id, monkeypatch) -> None:
    seen: list[int] = []
    report = runner.JobRun.report

    def telling(work: runner.JobRun, done: int, total: int | None = None) -> None:
        report(work, done, total)
        with Session(owner_engine) as session:
            shown = session.scalars(select(Job.done).where(Job.id == work.id)).one()
        assert shown <= done
        seen.append(shown)

    monkeypatch.setattr(runner.JobRun, "report", telling)

    def run(operation: str, **given: Any) -> list[int]:
        seen.clear()
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            who = {"actor": ACTOR, "tenant_id": tenant_id, "seal": SEALER.seal}
            job_id = imports.start_bulk(session, operation=operation, given=given, rows=_ROWS, **who).id
        handlers = imports.build_handlers(lambda: SEALER.seal)
        assert run_next(handlers, unseal=SEALER.open, app_engine=app_engine, engine=worker_engine)
        with Session(owner_engine) as session:
            job = session.get_one(Job, job_id)
            assert (job.state, job.done, job.total) == ("done", _ROWS, _ROWS), job.problem
        return sorted(set(seen) - {0})

    nases = [{"name": f"ap-{number}", "identifier": f"ap-{number}"} for number in range(_ROWS)]
    for operation, given in (
        ("endpoints.put", {"items": _ENDPOINTS, "allow_random": True}),
        ("endpoints.block", {"macs": _MACS}),
        ("endpoints.unblock", {"macs": _MACS}),
        ("endpoints.delete", {"macs": _MACS}),
        ("nases.put", {"items": nases}),
    ):
        told = run(operation, **given)
        # Some values from the middle, and no total before the end.
        assert told, operation
        assert told[-1] <= _ROWS, operation
