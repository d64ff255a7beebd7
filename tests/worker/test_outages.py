"""An outage of the database fills no log, and no other failure is shortened."""

import logging

import pytest
from celery import Celery

from nac.errors import DatabaseUnavailable
from worker.outages import without_traceback


@pytest.mark.parametrize(("error", "traceback"), [(DatabaseUnavailable("gone"), False), (ValueError("odd"), True)])
def test_job_that_fails_for_the_databases_sake_leaves_one_line(error, traceback, caplog):
    @Celery("test", set_as_current=False).task(name="job")
    def job():
        raise error

    logger = logging.getLogger("celery.app.trace")
    logger.addFilter(without_traceback)
    try:
        with caplog.at_level("ERROR"):
            job.apply()
    finally:
        logger.removeFilter(without_traceback)
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) == traceback
