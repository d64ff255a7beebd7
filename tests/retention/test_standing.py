"""Days that a tenant exports before their deletion: only rows in existing files are deleted."""

import gzip
import json
from datetime import UTC, datetime, time
from typing import Any

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.errors import Conflict
from nac.logs.exports import runner, service, standing_exports
from nac.logs.exports.export_folder import ExportFolder, find_damaged_part
from nac.logs.retention import row_deletion
from nac.models import AuthLog, ExportJob, RetentionNotice
from tests.exports.killed_script import killed_at_the_end
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.retention.conftest import DAY, Logs


@pytest.fixture
def logs(logs: Logs) -> Logs:
    """Alpha retains 10 days and exports them. Bravo has rows of these days."""
    logs.partition(logs.ago(11))
    logs.choose("alpha", "auth", days=10, export_format="jsonl")
    logs.add("auth", "alpha", logs.ago(11), rows=3)
    logs.add("auth", "bravo", logs.ago(11))
    return logs


def export(logs: Logs, *, least_free_bytes: int = 0, beside: int = 0) -> None:
    """Run the export. `beside` contains open transactions of the test. Rows newer than one of them are not exported."""
    with psycopg.connect(logs.database.owner_url, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        until(lambda: connection.execute(query).fetchone() == (beside,), "the end of others' transactions")
    limits = runner.ExportLimits(least_free_bytes=least_free_bytes, seconds=60)
    while runner.run_next_export(ExportFolder(logs.exports), limits, engine=logs.worker) is not None:
        continue


def enforce_and_export(logs: Logs, *, times: int = 1) -> None:
    for _ in range(times):
        logs.enforce()
        export(logs)


def jobs(logs: Logs) -> list[ExportJob]:
    return sorted(logs.scalars(ExportJob), key=lambda job: (job.since, job.id))


def states(logs: Logs) -> list[tuple[str, int, bool]]:
    """The state and rows of each job, and whether the deletion of the day waits for the job."""
    return [(job.state, job.rows, job.standing) for job in jobs(logs)]


def exported(logs: Logs) -> list[int]:
    """The ids of the rows in all intact files of the jobs."""
    found = []
    for job in jobs(logs):
        folder = ExportFolder(logs.exports).job_path(job.tenant_id, job.id)
        assert find_damaged_part(folder, job.parts) is None
        for part in job.parts:
            found += [
                json.loads(line)["id"] for line in gzip.decompress((folder / part["file"]).read_bytes()).splitlines()
            ]
    return sorted(found)


def ids(logs: Logs, tenant: str = "alpha") -> set[int]:
    with Session(logs.owner) as session:
        return set(session.scalars(select(AuthLog.id).where(AuthLog.tenant_id == logs.tenants[tenant])))


def test_day_is_deleted_after_its_export(logs: Logs) -> None:
    assert logs.enforce().deleted == 0
    (job,) = jobs(logs)
    assert (job.standing, job.log, job.state, job.until - job.since) == (True, "auth", "queued", DAY)
    assert logs.enforce().deleted == 0
    export(logs)
    assert logs.enforce().deleted == 3
    (job,) = jobs(logs)
    assert (job.state, job.rows) == ("done", 3)
    assert {whose for _, whose, _ in logs.there("auth")} == {logs.tenants["bravo"]}


def test_job_exists_before_the_day_is_due(logs: Logs) -> None:
    logs.add("auth", "alpha", logs.ago(10), logs.ago(9), logs.ago(8))
    logs.enforce()
    assert [job.since.date() for job in jobs(logs)] == [logs.ago(11), logs.ago(10), logs.ago(9)]


@pytest.mark.parametrize("whole", [True, False])
def test_rows_after_the_drop_are_exported_too(logs: Logs, whole: bool) -> None:
    if whole:
        for tenant in ("bravo", "carol"):
            logs.choose(tenant, "auth", days=10)
    logs.enforce()
    assert logs.ago(11) in logs.partitions()
    export(logs)
    logs.enforce()
    assert (logs.ago(11) in logs.partitions(), ids(logs)) == (not whole, set())
    logs.add("auth", "alpha", logs.ago(11), rows=2)
    late = ids(logs)
    enforce_and_export(logs, times=3)
    assert ids(logs) == set()
    assert states(logs) == [("done", 3, False), ("done", 2, True)]
    assert late < set(exported(logs))


def test_partition_with_an_unseen_late_row_is_not_dropped(logs: Logs, monkeypatch) -> None:
    for tenant in ("bravo", "carol"):
        logs.choose(tenant, "auth", days=10)
    enforce_and_export(logs)
    looked = standing_exports.release_day

    def release(*args: object, **given: object) -> object:
        released = looked(*args, **given)  # type: ignore[arg-type]
        monkeypatch.setattr(standing_exports, "release_day", looked)
        logs.add("auth", "alpha", logs.ago(11), identity="late")
        return released

    monkeypatch.setattr(standing_exports, "release_day", release)
    logs.enforce()
    assert logs.ago(11) in logs.partitions()
    assert len(ids(logs)) == 1
    enforce_and_export(logs, times=3)
    logs.enforce()
    assert (logs.ago(11) in logs.partitions(), len(exported(logs))) == (False, 4)


def test_rows_between_batches_stay_until_exported(logs: Logs, monkeypatch) -> None:
    """This includes a row whose transaction began before the export and ended after it."""
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 1)
    with psycopg.connect(logs.database.owner_url) as slow:
        slow.execute(
            "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason)"
            " VALUES (%s, %s, 1, 'mab', true, 'x')",
            (datetime.combine(logs.ago(11), time(1), UTC), logs.tenants["alpha"]),
        )
        logs.enforce()
        # Rows written during the transaction may be older or newer, so they wait too.
        logs.add("auth", "alpha", logs.ago(11), identity="beside")
        export(logs, beside=1)
    assert states(logs) == [("done", 3, True)]
    assert logs.enforce().deleted == 0
    enforce_and_export(logs)
    assert states(logs) == [("done", 3, False), ("done", 5, True)]
    delete = row_deletion.delete_batch

    def delete_batch(*args: Any, **given: Any) -> Any:
        done = delete(*args, **given)
        if done[0]:
            logs.add("auth", "alpha", logs.ago(11), identity="late")
        return done

    monkeypatch.setattr(row_deletion, "delete_batch", delete_batch)
    assert logs.enforce().deleted == 5
    assert len(ids(logs)) == 5
    monkeypatch.setattr(row_deletion, "delete_batch", delete)
    late = ids(logs)
    enforce_and_export(logs, times=3)
    assert (ids(logs), states(logs)[-1]) == (set(), ("done", 5, True))
    assert late < set(exported(logs))
    # After the export has begun, no row is in two files.
    assert len(exported(logs)) == 3 + 5 + 5


@pytest.mark.parametrize(
    ("harm", "when"), [("removed", "before"), ("shortened", "before"), ("changed", "before"), ("removed", "meanwhile")]
)
def test_day_with_changed_export_files_is_not_deleted(logs: Logs, harm: str, when: str) -> None:
    enforce_and_export(logs)
    if when == "meanwhile":
        logs.sql("UPDATE export_jobs SET deletion_began_at = %s", logs.now)
    (job,) = jobs(logs)
    path = ExportFolder(logs.exports).job_path(job.tenant_id, job.id) / job.parts[0]["file"]
    content = path.read_bytes()
    {
        "removed": path.unlink,
        "shortened": lambda: path.write_bytes(content[:-1]),
        "changed": lambda: path.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
    }[harm]()
    assert logs.enforce().deleted == 0
    enforce_and_export(logs)
    assert logs.enforce().deleted == 3


def test_export_of_another_database_does_not_count(logs: Logs) -> None:
    """After a restore, transaction ids start from the beginning."""
    enforce_and_export(logs)
    logs.sql("UPDATE export_jobs SET origin = '7/7', rows_before = rows_before + 1000000")
    assert logs.enforce().deleted == 0
    enforce_and_export(logs)
    assert logs.enforce().deleted == 3


def test_files_are_kept_until_they_expire(logs: Logs) -> None:
    enforce_and_export(logs)
    prune = {"kept": 14 * DAY, "engine": logs.worker}
    assert runner.prune_exports(ExportFolder(logs.exports), now=logs.now + 300 * DAY, **prune) == 0
    assert logs.enforce().deleted == 3
    logs.enforce()
    (job,) = jobs(logs)
    assert job.rows_gone_at == logs.now
    assert runner.prune_exports(ExportFolder(logs.exports), now=logs.now + 13 * DAY, **prune) == 0
    assert runner.prune_exports(ExportFolder(logs.exports), now=logs.now + 15 * DAY, **prune) == 1
    assert states(logs) == [("pruned", 3, True)]
    # These rows arrive after the files have expired.
    logs.add("auth", "alpha", logs.ago(11))
    enforce_and_export(logs)
    assert logs.enforce().deleted == 1
    assert states(logs) == [("pruned", 3, False), ("done", 1, True)]


def test_failing_export_blocks_deletion_with_a_notice(logs: Logs) -> None:
    logs.enforce()
    for _ in range(9):
        _make_due(logs)
        export(logs, least_free_bytes=1 << 60)
    (job,) = jobs(logs)
    # The deletion waits for the job, so the job is retried until it succeeds.
    assert (job.state, job.failures) == ("queued", 9)
    assert (logs.enforce().deleted, logs.scalars(RetentionNotice)) == (0, [])
    logs.sql("UPDATE export_jobs SET created_at = created_at - interval '400 days 1 minute'")
    assert logs.enforce(database_max_bytes=1).deleted == 0
    (notice,) = logs.scalars(RetentionNotice)
    assert (notice.log, notice.kind, notice.expected_on) == ("auth", "export", None)
    assert " are free for exports" in notice.detail
    _make_due(logs)
    export(logs)
    assert logs.enforce().deleted == 3
    logs.enforce()
    assert logs.scalars(RetentionNotice) == []


def _make_due(logs: Logs) -> None:
    logs.sql("UPDATE export_jobs SET due_at = created_at")


def cancel(logs: Logs) -> None:
    (job,) = jobs(logs)
    with logs.scope() as session:
        service.cancel_export(session, actor=ACTOR, tenant_id=logs.tenants["alpha"], job_id=job.id)


def test_ended_export_setting_blocks_nothing_a_week_later(logs: Logs) -> None:
    logs.enforce()
    with pytest.raises(Conflict, match="before the deletion of the exported day"):
        cancel(logs)
    logs.change("alpha", "auth", export_format=None)
    assert logs.enforce().deleted == 0
    (notice,) = [each for each in logs.scalars(RetentionNotice) if each.kind == "change"]
    assert f"from {logs.ago(-7)} on, days are deleted without an export" in notice.detail
    cancel(logs)
    assert states(logs) == [("cancelled", 0, False)]
    logs.now += 6 * DAY
    assert logs.enforce().deleted == 0
    logs.now += DAY
    assert logs.enforce().deleted == 3


def test_jobs_of_an_ended_export_setting_are_cancelled(logs: Logs) -> None:
    logs.enforce()
    logs.change("alpha", "auth", export_format=None)
    logs.take_effect()
    logs.hold("alpha")
    logs.enforce()
    assert states(logs) == [("cancelled", 0, False)]
    logs.change("alpha", "auth", export_format="csv")
    logs.enforce()
    assert states(logs) == [("cancelled", 0, False), ("queued", 0, True)]


KILLED = """
import sys, datetime, pathlib, time
from nac.kit.db import make_engine
from nac.logs.exports import (runner, file_writer)
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.retention import row_deletion
from nac.logs.retention.clock import ClockReading
from nac.logs.retention.enforcement import enforce_retention
row_deletion.BATCH_ROWS, row_deletion.PAUSE_SECONDS, runner.FILE_ROWS, file_writer._FETCH_ROWS = 50, 0.02, 200, 20
now, engine = datetime.datetime.fromisoformat(sys.argv[2]), make_engine(sys.argv[1])
folder = ExportFolder(pathlib.Path(sys.argv[3]))
window, limits = row_deletion.DeletionWindow(datetime.time(0), datetime.time.max), runner.ExportLimits(0, 60)
while True:
    enforce_retention(
        at=ClockReading(now, True), engine=engine, folder=folder, window=window, seconds=60, most_days=9,
        measure_every=-datetime.timedelta(days=1),
    )
    while runner.run_next_export(folder, limits, engine=engine):
        pass
"""


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
def test_repeatedly_killed_worker_deletes_only_exported_rows(logs: Logs, times: int) -> None:
    """The worker is killed during export and deletion while rows arrive.

    In the end, all rows are deleted, and the files contain all rows.
    """
    logs.add_many("alpha", logs.ago(11), 2_000)
    written = ids(logs)
    for phase in ("exporting",) * times + ("deleting",) * times:
        with killed_at_the_end(KILLED, logs.database.worker_url, logs.now.isoformat(), logs.exports):
            _wait_for(logs, phase)
        there = ids(logs)
        assert (len(there) < len(written)) is (phase == "deleting")
        assert written - there <= set(exported(logs))
        logs.add("auth", "alpha", logs.ago(11), identity="late")
        written |= ids(logs)
        logs.sql("UPDATE export_jobs SET due_at = %s", logs.now)
    enforce_and_export(logs, times=4)
    assert ids(logs) == set()
    assert set(exported(logs)) == written


def _wait_for(logs: Logs, phase: str) -> None:
    if phase == "exporting":
        parts = sum(len(job.parts) for job in jobs(logs))
        until(lambda: sum(len(job.parts) for job in jobs(logs)) > parts, "a file")
    else:
        rows = len(ids(logs))
        until(lambda: len(ids(logs)) < rows, "rows that go")
