"""Tenant files requested through the API and created by the worker."""

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine, Table, select, text

from nac.core.jobs import runner
from nac.core.jobs.runner import MultiTransactionHandler
from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry, Job
from nac.onboarding.tenant_files import file_jobs, writer
from tests.factories.certificates import SEALER, SIGNING
from tests.job_runs import run_next

FILES = "/v1/msps/acme/tenant-files"


def run_jobs(tmp_path: Path, app_engine: Engine, worker_engine: Engine) -> None:
    handlers = {
        file_jobs.EXPORT_JOB: MultiTransactionHandler(
            partial(file_jobs.run_export_job, export_dir=tmp_path / "exports", sealer=SEALER)
        ),
        file_jobs.IMPORT_JOB: MultiTransactionHandler(partial(file_jobs.run_import_job, signing=SIGNING)),
    }
    while run_next(handlers, unseal=SEALER.open, app_engine=app_engine, engine=worker_engine):
        pass


def test_tenant_is_exported_and_imported_as_another(api, tmp_path, app_engine, worker_engine, monkeypatch) -> None:
    monkeypatch.setattr(runner, "_PROGRESS_SECONDS", 0)
    api.post("/v1/tenants/alpha/endpoints", json={"mac": "00:00:5e:00:53:01"})
    own = api.get("/v1/tenants/alpha").json()["id"]
    export_job = api.post(f"/v1/msps/acme/tenants/{own}/export", json={})
    assert export_job.status_code == 202, export_job.text
    job = export_job.json()["id"]
    assert api.get(f"{FILES}/{job}").status_code == 404
    run_jobs(tmp_path, app_engine, worker_engine)
    done = api.get(f"/v1/msps/acme/jobs/{job}").json()
    assert (done["state"], done["result"]["rows"]["endpoints"]) == ("done", 1), done
    assert done["done"] == done["total"] == sum(done["result"]["rows"].values())
    assert done["title"] == "Export of tenant alpha"
    got = api.get(f"{FILES}/{job}")
    assert (got.status_code, got.content[:2]) == (200, b"PK")

    body = {"slug": "copy", "file": base64.b64encode(got.content).decode()}
    brought = api.post(FILES, json=body)
    assert brought.status_code == 202, brought.text
    wrong = api.post(FILES, json={"slug": "other", "file": base64.b64encode(got.content[:-40]).decode()})
    run_jobs(tmp_path, app_engine, worker_engine)
    jobs = {each["id"]: each for each in api.get("/v1/msps/acme/jobs").json()["items"]}
    taken = jobs[brought.json()["id"]]
    assert taken["state"] == "done", jobs
    assert taken["done"] == taken["total"] == sum(taken["result"]["rows"].values())
    assert jobs[wrong.json()["id"]]["problem"]["code"] == "tenant-file-refused"
    copied = api.get("/v1/tenants/copy/endpoints").json()["items"]
    assert [each["mac"] for each in copied] == ["00:00:5e:00:53:01"]
    assert api.get("/v1/tenants/other").status_code == 404


@pytest.fixture
def export_job(api: httpx.Client) -> str:
    """Return the export job of a tenant with some endpoints."""
    for number in range(4):
        api.post("/v1/tenants/alpha/endpoints", json={"mac": f"00:00:5e:00:53:{number:02x}"})
    return str(api.post("/v1/msps/acme/tenants/alpha/export", json={}).json()["id"])


@pytest.fixture
def overdue(owner_engine: Engine) -> Callable[[], None]:
    def make() -> None:
        with owner_engine.begin() as connection:
            connection.execute(text("UPDATE jobs SET due_at = now() - interval '1 second' WHERE state = 'running'"))

    return make


def at_row(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Run a callback once, while the export reads this row of a table."""
    acts = [act]
    rows_of = writer._TenantFileWriter.rows_of

    def rows(self: writer._TenantFileWriter, table: Table) -> Iterator[Mapping[str, object]]:
        for count, row in enumerate(rows_of(self, table)):
            if table.name == "endpoints" and count == number and acts:
                acts.pop()()
            yield row

    monkeypatch.setattr(runner, "_PROGRESS_SECONDS", 0)
    monkeypatch.setattr(writer._TenantFileWriter, "rows_of", rows)


def test_long_export_renews_its_lease(
    api, tmp_path, app_engine, worker_engine, owner_engine, export_job, overdue, monkeypatch
) -> None:
    at_row(monkeypatch, 0, overdue)
    at_row(monkeypatch, 2, lambda: run_jobs(tmp_path, app_engine, worker_engine))
    run_jobs(tmp_path, app_engine, worker_engine)
    assert api.get(f"/v1/msps/acme/jobs/{export_job}").json()["state"] == "done"
    with session_scope(PlatformScope(), engine=owner_engine) as session:
        assert session.scalars(select(Job.takes)).all() == [1]
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "tenant.export")).one()
    assert entry.request_id


def test_replaced_exporter_changes_nothing(
    api, tmp_path, app_engine, worker_engine, export_job, overdue, monkeypatch
) -> None:
    """The exporter is delayed beyond its lease.

    Another exporter creates the file, which is hidden until it is complete.
    """
    seen: list[tuple[int, str]] = []

    def wait_beyond_the_lease() -> None:
        overdue()
        run_jobs(tmp_path, app_engine, worker_engine)
        path = file_jobs.get_path(tmp_path / "exports", UUID(export_job))
        seen.append((api.get(f"{FILES}/{export_job}").status_code, sha256(path.read_bytes()).hexdigest()))

    at_row(monkeypatch, 1, wait_beyond_the_lease)
    run_jobs(tmp_path, app_engine, worker_engine)
    got = api.get(f"{FILES}/{export_job}")
    assert seen == [(200, sha256(got.content).hexdigest())]
    assert [path.name for path in file_jobs.get_folder(tmp_path / "exports").iterdir()] == [f"{export_job}.zip"]


def test_file_of_an_unfinished_job_is_not_found(api: httpx.Client, tmp_path: Path, export_job: str) -> None:
    path = file_jobs.get_path(tmp_path / "exports", UUID(export_job))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    assert api.get(f"{FILES}/{export_job}").status_code == 404
