"""Days that are exported before they are deleted: deletion waits, not for ever, and says so."""

from datetime import UTC
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from nac.db import TenantScope, session_scope
from nac.errors import Conflict
from nac.exports import running, service
from nac.exports.files import Folder
from nac.models import ExportJob, RetentionNotice
from tests.factories.tenancy import ACTOR
from tests.retention.conftest import DAY, Logs


@pytest.fixture
def ordered(logs: Logs) -> Logs:
    """Alpha keeps 10 days and has them exported; bravo has rows of the same day."""
    logs.partition(logs.ago(11))
    logs.choose("alpha", "auth", days=10, export_format="jsonl", export_wait_days=3)
    logs.add("auth", "alpha", logs.ago(11), rows=3)
    logs.add("auth", "bravo", logs.ago(11))
    return logs


def export(logs: Logs, folder: Path, *, least_free_bytes: int = 0) -> None:
    limits = running.Limits(least_free_bytes=least_free_bytes, seconds=60)
    while running.run_next(Folder(folder), limits, engine=logs.worker) is not None:
        continue


def jobs(logs: Logs) -> list[ExportJob]:
    with Session(logs.owner, expire_on_commit=False) as session:
        return list(session.scalars(select(ExportJob).order_by(ExportJob.since)))


def pass_days(logs: Logs, days: int) -> None:
    """As if the jobs had been there for so long already."""
    with Session(logs.owner) as session, session.begin():
        session.execute(update(ExportJob).values(created_at=ExportJob.created_at - days * DAY - DAY / 1440))


def test_day_goes_once_it_was_exported(ordered: Logs, tmp_path: Path) -> None:
    logs = ordered
    assert logs.enforce().deleted == 0
    (job,) = jobs(logs)
    assert (job.standing, job.log, job.state, job.until - job.since) == (True, "auth", "queued", DAY)
    assert logs.enforce().deleted == 0
    export(logs, tmp_path)
    assert logs.enforce().deleted == 3
    (job,) = jobs(logs)
    assert (job.state, job.rows) == ("done", 3)
    assert {whose for _, whose, _ in logs.there("auth")} == {logs.tenants["bravo"]}


def test_job_is_there_before_the_day_is_due(ordered: Logs) -> None:
    logs = ordered
    logs.add("auth", "alpha", logs.ago(10), logs.ago(9), logs.ago(8))
    logs.enforce()
    assert [job.since.date() for job in jobs(logs)] == [logs.ago(11), logs.ago(10), logs.ago(9)]


def test_partition_is_dropped_only_after_the_export(ordered: Logs, tmp_path: Path) -> None:
    logs = ordered
    logs.choose("bravo", "auth", days=10)
    logs.choose("carol", "auth", days=10)
    logs.enforce()
    assert logs.ago(11) in logs.partitions()
    export(logs, tmp_path)
    logs.enforce()
    assert logs.ago(11) not in logs.partitions()


def test_row_that_comes_after_the_export_is_exported_before_it_goes(ordered: Logs, tmp_path: Path) -> None:
    logs = ordered
    logs.enforce()
    export(logs, tmp_path)
    logs.add("auth", "alpha", logs.ago(11))
    assert logs.enforce().deleted == 0
    assert [job.state for job in jobs(logs)] == ["queued"]
    export(logs, tmp_path)
    assert logs.enforce().deleted == 4
    assert [(job.state, job.rows) for job in jobs(logs)] == [("done", 4)]


def test_export_that_fails_holds_deletion_up_with_a_notice_and_not_for_ever(ordered: Logs, tmp_path: Path) -> None:
    logs = ordered
    logs.enforce()
    for _ in range(9):
        _make_due(logs)
        export(logs, tmp_path, least_free_bytes=1 << 60)
    (job,) = jobs(logs)
    # Deletion waits for it, so it is tried as long.
    assert (job.state, job.failures) == ("queued", 9)
    assert (logs.enforce().deleted, logs.scalars(RetentionNotice)) == (0, [])
    pass_days(logs, 2)
    assert logs.enforce().deleted == 0
    (notice,) = logs.scalars(RetentionNotice)
    (job,) = jobs(logs)
    at_last = (job.created_at + 5 * DAY).astimezone(UTC).date()
    assert (notice.log, notice.kind, notice.expected_on) == ("auth", "export", at_last)
    assert "bytes are free where exports are written" in notice.detail
    pass_days(logs, 3)
    assert logs.enforce().deleted == 3
    logs.enforce()
    assert logs.scalars(RetentionNotice) == []


def _make_due(logs: Logs) -> None:
    with Session(logs.owner) as session, session.begin():
        session.execute(update(ExportJob).values(due_at=ExportJob.created_at))


def test_order_that_deletion_waits_for_is_not_cancelled(ordered: Logs) -> None:
    logs = ordered
    logs.enforce()
    (job,) = jobs(logs)
    alpha = logs.tenants["alpha"]
    with (
        pytest.raises(Conflict, match="exported before it is deleted"),
        session_scope(TenantScope(alpha), engine=logs.app) as session,
    ):
        service.cancel(session, actor=ACTOR, tenant_id=alpha, job_id=job.id)


def test_order_that_was_ended_holds_nothing_up(ordered: Logs) -> None:
    logs = ordered
    logs.enforce()
    logs.change("alpha", "auth", export_format=None)
    assert logs.enforce().deleted == 3
