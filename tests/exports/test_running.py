"""Export jobs: they resume after any failure, and no incomplete file is visible."""

import hashlib
import json
import resource
import signal
import stat
import subprocess
import sys
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import Conflict, SeveralMistakes
from nac.logs.exports import runner, service, standing_exports
from nac.logs.exports.columns import LOG_SOURCES
from nac.models import AuditEntry, ExportJob
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.exports.conftest import DAY, Exports
from tests.exports.killed_script import killed_at_the_end
from tests.exports.test_formats import READERS, in_order, stored
from tests.factories.tenancy import ACTOR
from tests.polling import until


def add_rows(exports: Exports, rows: int, *, days: int = 1) -> None:
    given = {"first": exports.today - days * DAY, "rows": rows, "days": days, "tenant": exports.alpha}
    with exports.owner.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, detail)"
                " SELECT CAST(:first AS timestamptz) + n * interval '1 day' * :days / (:rows + 1), :tenant, 1, 'mab',"
                " true, 'x', repeat(md5(n::text), 8) FROM generate_series(1, :rows) n"
            ),
            given,
        )


def read(exports: Exports, job_id: int, form: str) -> list[str]:
    source = LOG_SOURCES["auth"]
    return in_order([row for path in exports.files(job_id) for row in READERS[form](path, source)])


def test_job_lists_its_files_and_they_match(exports: Exports) -> None:
    add_rows(exports, 300, days=3)
    job_id = exports.start("auth", "jsonl")
    assert exports.run() == job_id
    assert exports.run() is None
    job, folder = exports.job(job_id), exports.path(job_id)
    assert (job.state, job.rows, len(job.parts)) == ("done", 300, 3)
    manifest = (folder / "manifest.json").read_bytes()
    assert hashlib.sha256(manifest).hexdigest() == job.sha256
    told = json.loads(manifest)
    assert told["files"] == job.parts
    assert sorted(path.name for path in folder.iterdir()) == sorted(["manifest.json", *(p["file"] for p in job.parts)])
    for part in job.parts:
        content = (folder / part["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (part["bytes"], part["sha256"])
    assert sum(part["bytes"] for part in job.parts) == job.bytes
    assert sum(part["rows"] for part in job.parts) == job.rows
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (modes, stat.S_IMODE(folder.stat().st_mode) & 0o007) == ({0o640}, 0)
    assert folder.parent.name == str(exports.alpha)


@pytest.mark.parametrize("is_measured", [True, False])
def test_large_day_becomes_several_files_and_jobs_alternate(exports: Exports, monkeypatch, is_measured: bool) -> None:
    monkeypatch.setattr(runner, "FILE_ROWS", 60)
    add_rows(exports, 200)
    if is_measured:
        exports.measure()
    first, second = (exports.start("auth", "csv") for _ in range(2))
    # The worker has no time for a second file, so the other job runs first.
    turns = []
    while (job_id := exports.run(seconds=0.000001)) is not None:
        turns.append(job_id)
    assert {first, second} == set(turns)
    for job_id in (first, second):
        assert len(exports.job(job_id).parts) == 4
        assert read(exports, job_id, "csv") == in_order(stored(exports, "auth_log", LOG_SOURCES["auth"]))


KILLED = """
import sys, pathlib, time
from nac.kit.db import make_engine
from nac.logs.exports import (runner, file_writer)
from nac.logs.exports.export_folder import ExportFolder
runner.FILE_ROWS, file_writer._FETCH_ROWS = 200, 10
measured = file_writer._MeasuredFile.write
def slow(self, data):
    time.sleep(0.002)
    return measured(self, data)
file_writer._MeasuredFile.write = slow
folder = ExportFolder(pathlib.Path(sys.argv[2]))
runner.run_next_export(folder, runner.ExportLimits(0, 60), engine=make_engine(sys.argv[1]))
"""


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_killed_export_resumes_without_lost_or_double_rows(exports: Exports, form: str, database) -> None:
    add_rows(exports, 1_600, days=2)
    exports.measure()
    job_id = exports.start("auth", form)
    with killed_at_the_end(KILLED, database.worker_url, exports.folder.root):
        until(lambda: len(exports.job(job_id).parts) >= 2, "two files")
        until(lambda: list(exports.path(job_id).glob(".*")), "a third one")
    left = exports.job(job_id)
    assert left.state == "running"
    # No other worker continues the job while the lease lasts.
    assert exports.run() is None
    exports.due(job_id)
    assert exports.run() == job_id
    job = exports.job(job_id)
    assert (job.state, job.rows) == ("done", 1_600)
    assert job.parts[: len(left.parts)] == left.parts
    assert read(exports, job_id, form) == in_order(stored(exports, "auth_log", LOG_SOURCES["auth"]))
    assert list(exports.path(job_id).glob(".*")) == []


def test_full_disk_is_reported_and_the_job_is_retried(exports: Exports) -> None:
    add_rows(exports, 10)
    job_id = exports.start("auth", "csv")
    exports.run(least_free_bytes=1 << 60)
    job = exports.job(job_id)
    assert (job.state, job.failures) == ("queued", 1)
    assert "are free for exports" in job.error
    assert list(exports.path(job_id).iterdir()) == []
    assert exports.run() is None
    exports.do(service.retry_export, job_id=job_id)
    exports.run()
    job = exports.job(job_id)
    assert (job.state, job.rows, job.error) == ("done", 10, "")


def test_unwritable_file_leaves_nothing_and_fails_finally(exports: Exports) -> None:
    add_rows(exports, 3_000)
    job_id = exports.start("auth", "csv")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        for _ in range(7):
            exports.due(job_id)
            exports.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    job = exports.job(job_id)
    assert (job.state, job.error, job.failures) == ("failed", "File too large", 7)
    assert list(exports.path(job_id).iterdir()) == []


@pytest.mark.parametrize("harm", ["removed", "changed", "elsewhere"])
def test_missing_or_changed_file_is_written_again(exports: Exports, harm: str) -> None:
    """A power failure, or a worker with another folder, can cause this."""
    add_rows(exports, 30, days=3)
    job_id = exports.start("auth", "jsonl")
    for _ in range(2):
        exports.run(seconds=0.000001)
    path = exports.files(job_id)[1]
    if harm == "removed":
        path.unlink()
    elif harm == "changed":
        path.write_bytes(bytes(path.stat().st_size))
    else:
        exports.path(job_id).rename(exports.folder.root / "elsewhere")
    exports.run()
    job = exports.job(job_id)
    assert (job.state, job.failures, len(job.parts)) == ("queued", 1, 0 if harm == "elsewhere" else 1)
    assert "was changed or deleted" in job.error
    exports.due(job_id)
    exports.run()
    job = exports.job(job_id)
    assert (job.state, job.rows, len(job.parts)) == ("done", 30, 3)
    assert sum(part["bytes"] for part in job.parts) == job.bytes
    assert read(exports, job_id, "jsonl") == in_order(stored(exports, "auth_log", LOG_SOURCES["auth"]))


def test_failing_export_does_not_block_other_jobs(exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    real = runner.write_rows

    def failing_connection(connection: psycopg.Connection, *args: Any, **given: Any) -> Any:
        if given["stretch"].tenant_id == exports.alpha:
            connection.execute("SELECT 1/0")
        return real(connection, *args, **given)

    monkeypatch.setattr(runner, "write_rows", failing_connection)
    add_rows(exports, 3)
    job_id = exports.start("auth", "csv")
    for failures in range(1, 8):
        assert exports.run() == job_id
        job = exports.job(job_id)
        state = "failed" if failures == 7 else "queued"
        assert (job.failures, job.error, job.state) == (failures, "division by zero", state)
        assert exports.run() is None
        exports.due(job_id)
    monkeypatch.undo()
    exports.do(service.retry_export, job_id=job_id)
    exports.run()
    assert (exports.job(job_id).state, exports.job(job_id).rows) == ("done", 3)


def test_day_export_before_deletion_matches_the_deleted_rows(exports: Exports) -> None:
    """The session export contains only the history. Rows added later are late rows."""
    tables = {"auth": "auth_log", "accounting": "accounting_log", "sessions": "session_history", "usage": "usage_hours"}
    at = exports.today - 3 * DAY
    for table in [*tables.values(), "sessions"]:
        exports.add(table, at)
    for log, form in zip(LOG_SOURCES, ("csv", "jsonl", "parquet", "parquet"), strict=True):
        exports.order(log, form, at)
    while exports.run() is not None:
        continue
    with exports.scope(exports.worker) as session:
        jobs = {job.log: (job.state, job.rows) for job in service.list_exports(session, tenant_id=exports.alpha)}
        assert jobs == dict.fromkeys(LOG_SOURCES, ("done", 1))
        given = {"folder": exports.folder, "now": exports.today}
        assert all(standing_exports.release_day(session, exports.alpha, log, at.date(), **given) for log in LOG_SOURCES)


def test_tenant_export_quota_counts_and_is_freed(exports: Exports, monkeypatch) -> None:
    add_rows(exports, 300, days=3)
    first = exports.start("auth", "csv")
    exports.run()
    most = exports.job(first).bytes + 1
    second = exports.start("auth", "csv", most_bytes=most)
    exports.run(tenant_max_bytes=most)
    job = exports.job(second)
    # One file may exceed the quota, but the next file may not.
    assert (job.state, len(job.parts), job.failures) == ("failed", 1, 1)
    assert f"The tenant's exports have reached the maximum of {most} bytes." in job.error
    with pytest.raises(Conflict, match=f"maximum is {most}"):
        exports.start("auth", "csv", most_bytes=most)
    # Exports before a deletion do not count.
    exports.order("auth", "csv", exports.today - DAY)
    exports.run(tenant_max_bytes=1)
    with Session(exports.owner) as session:
        ordered = session.query(ExportJob).filter(ExportJob.standing).one()
    assert (ordered.state, ordered.rows) == ("done", 100)
    for job_id in (first, second):
        exports.do(service.delete_export, job_id=job_id)
    for job_id, why in ((first, "has no files to delete"), (ordered.id, "the only copy of rows")):
        with pytest.raises(Conflict, match=why):
            exports.do(service.delete_export, job_id=job_id)
    assert exports.prune() == 2
    exports.start("auth", "csv", most_bytes=most)
    monkeypatch.setattr(service, "MAX_KEPT", 1)
    with pytest.raises(Conflict, match="already has files of 1 exports"):
        exports.start("auth", "csv")


def test_cancelled_job_ends_and_its_files_are_deleted(exports: Exports, monkeypatch) -> None:
    add_rows(exports, 30, days=3)
    job_id = exports.start("auth", "csv")
    exports.run(seconds=0.000001)

    def cancel(*args: object, **given: object) -> None:
        exports.do(service.cancel_export, job_id=job_id)

    # The cancellation arrives while a file is written.
    monkeypatch.setattr(runner._ExportRun, "_renew", cancel)
    exports.run()
    job = exports.job(job_id)
    assert (job.state, len(job.parts)) == ("cancelled", 1)
    with pytest.raises(Conflict, match="is already cancelled"):
        cancel()
    assert exports.prune() == 1
    assert not exports.path(job_id).exists()


def test_files_expire_and_follow_deleted_tenants(exports: Exports) -> None:
    add_rows(exports, 3)
    job_id = exports.start("auth", "csv")
    exports.run()
    assert exports.prune(later=timedelta(hours=23)) == 0
    assert exports.prune(later=timedelta(hours=25)) == 1
    assert (exports.job(job_id).state, exports.path(job_id).exists()) == ("pruned", False)
    exports.start("auth", "csv")
    exports.run()
    with session_scope(PlatformScope(), engine=exports.app) as session:
        for end in (tenants.delete_tenant, tenant_purge.purge_tenant):
            end(session, actor=ACTOR, tenant_id=exports.alpha)
    assert exports.prune() == 1
    assert list(exports.folder.root.iterdir()) == []


def test_old_jobs_are_deleted_except_those_of_kept_days(exports: Exports) -> None:
    add_rows(exports, 3)
    exports.start("auth", "csv")
    exports.order("auth", "csv", exports.today - DAY, exports.today - 2 * DAY)
    while exports.run() is not None:
        continue
    exports.measure()
    later = runner.JOB_RETENTION + DAY
    exports.prune(later=later - 2 * DAY)
    with Session(exports.owner) as session:
        assert session.query(ExportJob).count() == 3
    exports.prune(later=later)
    with Session(exports.owner) as session:
        assert [job.since for job in session.query(ExportJob)] == [exports.today - DAY]


def test_time_range_includes_start_and_excludes_end(exports: Exports) -> None:
    for at in (exports.today - DAY, exports.today - timedelta(microseconds=1), exports.today):
        exports.add("auth_log", at)
    job_id = exports.start("auth", "csv", since=exports.today - DAY, until=exports.today)
    exports.run()
    assert exports.job(job_id).rows == 2
    # The end is tomorrow at the latest.
    job_id = exports.start("auth", "csv", until=exports.today.replace(year=9999, month=12, day=31))
    exports.run()
    assert (exports.job(job_id).rows, exports.job(job_id).until < exports.today + 3 * DAY) == (3, True)


def test_ended_sessions_are_exported_from_both_tables(exports: Exports) -> None:
    at = exports.today - DAY
    exports.add("session_history", at, session_id="old")
    for session_id, flags in (("new", []), ("silent", ["stale"])):
        exports.add("sessions", at, session_id=session_id, flags=flags, identity="", terminate_cause="")
    exports.add("sessions", None, session_id="live")
    job_id = exports.start("sessions", "jsonl")
    exports.run()
    rows = [row for path in exports.files(job_id) for row in READERS["jsonl"](path, LOG_SOURCES["sessions"])]
    assert sorted(row["session_id"] for row in rows) == ["new", "old", "silent"]


def test_tenant_with_many_jobs_alternates_with_others(exports: Exports) -> None:
    with session_scope(TenantScope(exports.bravo), engine=exports.worker) as session:
        days = [(exports.today - age * DAY).date() for age in range(1, 200)]
        standing_exports.create_jobs(session, exports.bravo, "auth", days, format="csv")
    job_id = exports.start("auth", "csv")
    turns = 1
    while exports.run() != job_id:
        turns += 1
    # By chance the job may run late, but not after all others.
    assert turns < 60


def test_all_errors_are_listed_and_the_queue_is_bounded(exports: Exports) -> None:
    with pytest.raises(SeveralMistakes) as caught:
        exports.start("audit", "xls", since=exports.today, until=exports.today)
    assert {mistake.place for mistake in caught.value.mistakes} == {"log", "format", "until"}
    for _ in range(service.MAX_WAITING):
        exports.start("auth", "csv")
    with pytest.raises(Conflict, match="pending exports"):
        exports.start("auth", "csv")
    with Session(exports.owner) as session:
        assert session.query(AuditEntry).filter(AuditEntry.action == "export.start").count() == service.MAX_WAITING


MEASURED = """
import sys, pathlib, resource
from nac.kit.db import make_engine
from nac.logs.exports import runner
from nac.logs.exports.export_folder import ExportFolder
folder, engine = ExportFolder(pathlib.Path(sys.argv[2])), make_engine(sys.argv[1])
while runner.run_next_export(folder, runner.ExportLimits(0, 60), engine=engine):
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_rows(exports: Exports, database) -> None:
    """The second export of each format has four times the rows of the first export, which fills the caches."""
    with Session(exports.owner) as session, session.begin():
        for age, rows in ((1, 11_000), (2, 40_000)):
            session.execute(
                text(
                    "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, detail)"
                    " SELECT CAST(:first AS timestamptz) + n * interval '1 ms', :tenant, 1, 'mab', true, 'x',"
                    " repeat(md5(n::text), 16) FROM generate_series(1, :rows) n"
                ),
                {"first": exports.today - age * DAY, "tenant": exports.alpha, "rows": rows},
            )
    for age in (1, 2):
        for form in READERS:
            exports.start("auth", form, since=exports.today - age * DAY, until=exports.today - (age - 1) * DAY)
    command = [sys.executable, "-c", MEASURED, database.worker_url, str(exports.folder.root)]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    peaks = [int(line) for line in output.split()]
    assert len(peaks) == 6
    # In kilobytes. The rows of each export take 22 MB.
    assert peaks[-1] - peaks[2] < 10_000, peaks
