"""Outages: jobs end within their deadline while PostgreSQL hangs, and an outage does not fill the log."""

import logging
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from uuid import uuid4

import pytest
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler

from nac.kit.errors import DatabaseSilent, DatabaseUnavailable
from tests.factories.certificates import write_master_key
from tests.forked_processes import run_forked
from tests.postgres import Cluster, Database
from worker.log_filters import SchedulingErrorFilter, drop_outage_traceback


@pytest.mark.parametrize(("error", "traceback"), [(DatabaseUnavailable("gone"), False), (ValueError("odd"), True)])
def test_job_failing_for_the_database_logs_one_line(error, traceback, caplog):
    @Celery("test", set_as_current=False).task(name="job", shared=False)
    def job():
        raise error

    logger = logging.getLogger("celery.app.trace")
    logger.addFilter(drop_outage_traceback)
    try:
        with caplog.at_level("ERROR"):
            job.apply()
    finally:
        logger.removeFilter(drop_outage_traceback)
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) == traceback


def test_jobs_waiting_for_redis_log_one_line_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    app = Celery("test", broker="redis+socket:///nonexistent", set_as_current=False)
    app.conf.broker_transport_options = {"max_retries": 0}
    scheduler = Scheduler(app, lazy=True)
    entry = ScheduleEntry(name="worker.dispatch", task="worker.dispatch", schedule=1, app=app)

    def pass_on(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            scheduler.apply_entry(entry)
        return caplog.text.splitlines()

    logger = logging.getLogger("celery.beat")
    filter_: Callable[[logging.LogRecord], bool] = SchedulingErrorFilter(lambda: now)
    logger.addFilter(filter_)
    try:
        [line] = pass_on(3)
        assert "Due jobs are waiting: Couldn't apply scheduled task worker.dispatch" in line
        now = 59.0
        assert pass_on(1) == []
        now = 61.0
        assert len(pass_on(2)) == 1
    finally:
        logger.removeFilter(filter_)


_DEADLINE_SECONDS = 1
# A new connection may take equally long in the second attempt. A busy machine adds delay.
_MARGIN_SECONDS = 10


def _statement_deadline() -> Callable[[], object]:
    """A job whose time the engine of its process limits."""
    from worker import app
    from worker.jobs.endpoints import enrich

    assert app.app.conf.task_soft_time_limit > app._STATEMENT_SECONDS, "the job's own limit comes first"
    app._STATEMENT_SECONDS = _DEADLINE_SECONDS
    app._create_process_engine()
    job: Callable[[], object] = enrich
    return job


def _client_jobs_deadline() -> Callable[[], object]:
    """A job that a client starts, with its own time budget."""
    from worker import app
    from worker.jobs import client_jobs

    pytest.MonkeyPatch().setattr(client_jobs, "LONG_STATEMENT_SECONDS", _DEADLINE_SECONDS)
    app._create_process_engine()
    return partial(app.app.tasks["bulk.run"], str(uuid4()))


@pytest.mark.parametrize("prepare", [_statement_deadline, _client_jobs_deadline])
def test_job_ends_while_database_hangs(
    database: Database, cluster: Cluster, tmp_path: Path, prepare: Callable[[], Callable[[], object]]
) -> None:
    environment = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_WORKER_URL": database.worker_url,
        "ADMIT_REDIS_URL": "unix:///nonexistent",
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(tmp_path)),
    }

    def main() -> int:
        job = prepare()
        job()
        signal.signal(signal.SIGALRM, _give_up)
        with cluster.frozen():
            signal.setitimer(signal.ITIMER_REAL, _DEADLINE_SECONDS + _MARGIN_SECONDS)
            began = time.monotonic()
            with pytest.raises(DatabaseSilent):
                job()
            assert time.monotonic() - began >= _DEADLINE_SECONDS
            signal.setitimer(signal.ITIMER_REAL, 0)
        job()
        return 0

    done = run_forked(main, environment)
    assert done.returncode == 0, done.stderr


def _give_up(number: int, frame: FrameType | None) -> None:
    """Resume PostgreSQL for other tests."""
    raise AssertionError("the job still waits")
