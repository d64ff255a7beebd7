"""An outage of the database does not fill the log. Other failures are logged completely."""

import logging
from collections.abc import Callable

import pytest
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler

from nac.kit.errors import DatabaseUnavailable
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
