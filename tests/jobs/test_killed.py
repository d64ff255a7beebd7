"""Jobs whose worker is killed before and after each commit. They complete fully and only once."""

import base64
import io
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.jobs import runner, service
from nac.core.jobs.runner import JobHandler, MultiTransactionHandler
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, TenantScope, make_engine, session_scope
from nac.models import AuditEntry, Endpoint, Job, Slot, Tenant
from nac.onboarding.imports import jobs as imports
from nac.onboarding.tenant_files import file_jobs
from nac.onboarding.tenant_files.reader import TenantFile
from nac.onboarding.tenant_files.writer import write_tenant
from tests.commit_kills import deaths
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.job_runs import run_next
from tests.postgres import Database

_ROWS = 1_500


@pytest.fixture
def ends(
    database: Database, owner_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mapping[str, JobHandler], Callable[[], None]], Job]:
    """Run until the only job ends, and return its final state.

    After each kill its lease expires, then `check` is called.
    """
    monkeypatch.setattr(runner, "MAX_LAPSES", 1_000)

    def ends(handlers: Mapping[str, JobHandler], check: Callable[[], None]) -> Job:
        def work() -> None:
            engines = {"app_engine": make_engine(database.app_url), "engine": make_engine(database.worker_url)}
            while run_next(handlers, unseal=SEALER.open, **engines):
                pass

        for _ in deaths(work):
            check()
            with owner_engine.begin() as connection:
                connection.execute(update(Job).values(due_at=utc_now() - timedelta(seconds=1)))
        with Session(owner_engine, expire_on_commit=False) as session:
            return session.scalars(select(Job)).one()

    return ends


def start_job(app_engine: Engine, platform: Platform, kind: str, given: dict[str, object]) -> UUID:
    who = {"actor": ACTOR, "owner": Owner(platform.msp_id), "seal": SEALER.seal}
    with session_scope(MspScope(platform.msp_id), engine=app_engine) as session:
        return service.start_job(session, kind=kind, title="x", input=given, needs=(), **who).id


def test_bulk_endpoints_are_all_stored_or_none(
    app_engine: Engine, owner_engine: Engine, alpha: Certified, ends
) -> None:
    items = [{"mac": f"00005e{number:06x}", "name": f"Printer {number}"} for number in range(_ROWS)]
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        given = {"items": items, "options": {}}
        who = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "seal": SEALER.seal}
        imports.start_bulk(session, operation="endpoints.put", given=given, rows=_ROWS, **who)
    seen = set()

    def check_rows() -> None:
        with Session(owner_engine) as session:
            seen.add(session.scalars(select(func.count()).select_from(Endpoint)).one())

    job = ends(imports.build_handlers(lambda: SEALER.seal), check_rows)
    check_rows()
    assert (job.state, job.result["added"], job.input_sealed) == ("done", _ROWS, None)
    assert seen == {0, _ROWS}


@pytest.mark.long
def test_tenant_file_is_complete(
    app_engine: Engine, owner_engine: Engine, platform: Platform, alpha: Certified, tmp_path: Path, ends
) -> None:
    given = {"tenant_id": str(alpha.tenant_id), "passphrase": "", "logs": True}
    job_id = start_job(app_engine, platform, file_jobs.EXPORT_JOB, given)
    path = file_jobs.get_path(tmp_path, job_id)

    def check_rows() -> None:
        if path.exists():
            TenantFile(io.BytesIO(path.read_bytes()))

    run = MultiTransactionHandler(partial(file_jobs.run_export_job, export_dir=tmp_path, sealer=SEALER))
    assert ends({file_jobs.EXPORT_JOB: run}, check_rows).state == "done"
    assert path.exists()
    check_rows()


@pytest.mark.long
def test_tenant_is_imported_once(
    app_engine: Engine, owner_engine: Engine, platform: Platform, alpha: Certified, ends
) -> None:
    source = io.BytesIO()
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine, is_snapshot=True) as session:
        write_tenant(session, source, actor=ACTOR, tenant_id=alpha.tenant_id, sealer=SEALER)
    given = {"file": base64.b64encode(source.getvalue()).decode(), "slug": "copy", "msp_id": str(platform.msp_id)}
    given |= {"passphrase": "", "place": "", "keeps_authorities": False}
    start_job(app_engine, platform, file_jobs.IMPORT_JOB, given)

    def check_rows() -> None:
        with Session(owner_engine) as session:
            there = session.scalars(select(Tenant.slug)).all()
            assert sorted(there) in (["alpha"], ["alpha", "copy"])
            imported = select(func.count()).select_from(AuditEntry).where(AuditEntry.action == "tenant.import")
            assert session.scalars(imported).one() == len(there) - 1
            taken = select(func.count()).select_from(Slot).where(Slot.tenant_id.is_not(None))
            assert session.scalars(taken).one() == len(there)

    run = MultiTransactionHandler(partial(file_jobs.run_import_job, signing=SIGNING))
    job = ends({file_jobs.IMPORT_JOB: run}, check_rows)
    check_rows()
    assert (job.state, job.result["tenant"]) == ("done", "copy")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.get_one(Tenant, UUID(job.result["id"])).slug == "copy"
