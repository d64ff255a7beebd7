"""PostgreSQL hangs: jobs end within the worker's deadline and run again when PostgreSQL continues."""

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from uuid import uuid4

import pytest

from nac.kit.errors import DatabaseSilent
from tests.factories.certificates import write_master_key
from tests.forked_processes import run_forked
from tests.postgres import Cluster, Database

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
