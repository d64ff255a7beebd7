"""Every message contains the name of a task that the worker has."""

from pathlib import Path

from tests.forked_processes import run_forked
from tests.postgres import Database
from worker.constants import JOBS_QUEUE, LONG_JOB_SECONDS
from worker.handlers import JOB_HANDLERS
from worker.schedule import BEAT_SCHEDULE, STARTUP_TASKS


def test_sent_tasks_exist_and_jobs_have_their_queue(database: Database, tmp_path: Path) -> None:
    environment = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_WORKER_URL": database.worker_url,
        "ADMIT_REDIS_URL": "unix:///nonexistent",
    }

    def main() -> int:
        from worker.app import app

        app.loader.import_default_modules()
        assert {*BEAT_SCHEDULE, *STARTUP_TASKS, *JOB_HANDLERS, "jobs.enqueue"} <= set(app.tasks)
        assert {queue.name for queue in app.amqp.queues.values()} == {"admit", JOBS_QUEUE}
        for kind in JOB_HANDLERS:
            task = app.tasks[kind]
            assert (task.queue, task.soft_time_limit, task.acks_late) == (JOBS_QUEUE, LONG_JOB_SECONDS, True)
        # Redis would deliver a running job again.
        assert app.conf.broker_transport_options["visibility_timeout"] > 2 * LONG_JOB_SECONDS
        return 0

    done = run_forked(main, environment)
    assert done.returncode == 0, done.stderr
