"""The Celery application of `python -m worker`."""

import logging
import pkgutil
from typing import Any

from celery import Celery, signals
from kombu.entity import Queue

from nac.kit.db import make_engine, set_process_engine
from nac.kit.settings import Settings, load_settings
from worker import jobs
from worker.beat import BeatRestarter
from worker.constants import JOBS_QUEUE, LONG_JOB_SECONDS, QUEUE
from worker.log_filters import SchedulingErrorFilter, drop_outage_traceback
from worker.priority import lower_connection_priority, lower_priority
from worker.schedule import BEAT_SCHEDULE, STARTUP_TASKS

# Time limit of a database statement. The limit is below a job's own time limit, so that a server that does not respond
# causes only one log line.
_STATEMENT_SECONDS = 240


def broker_url(redis_url: str) -> str:
    """Convert a Redis URL for Celery: "unix:///path" becomes "redis+socket:///path"."""
    scheme, separator, rest = redis_url.partition("://")
    return f"redis+socket{separator}{rest}" if scheme == "unix" else redis_url


def make_app(settings: Settings) -> Celery:
    modules = [module.name for module in pkgutil.iter_modules(jobs.__path__, "worker.jobs.")]
    app = Celery("admit", broker=broker_url(settings.redis_url), include=modules)
    app.conf.update(
        # If the worker dies during a job, the job runs again. All jobs permit this.
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        # After this time, Redis delivers an unacknowledged message again. The time is longer than the longest job and
        # its wait for a process.
        broker_transport_options={"visibility_timeout": 3 * LONG_JOB_SECONDS},
        # Jobs store their results in the database, where clients read the results.
        task_ignore_result=True,
        task_default_queue=QUEUE,
        # The worker reads the queues in turns, so messages in one queue do not delay messages in the other queue.
        task_queues=[Queue(name, routing_key=name) for name in (QUEUE, JOBS_QUEUE)],  # type: ignore[no-untyped-call]
        task_soft_time_limit=300,
        task_time_limit=330,
        timezone="UTC",
        broker_connection_retry_on_startup=True,
        # Redis may be down for a long time: never give up.
        broker_connection_max_retries=None,
        beat_schedule=BEAT_SCHEDULE,
    )
    return app


_settings = load_settings(required=("DATABASE_URL", "DATABASE_WORKER_URL", "REDIS_URL"))
app = make_app(_settings)
app.steps["worker"].add(BeatRestarter)
app.set_default()


@signals.after_setup_logger.connect
def _configure_loggers(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    """Reduce the number of log lines. The worker still logs failures.

    Otherwise, three lines for each heartbeat would hide the lines of jobs. httpx would log URLs of tenants, which may
    contain secrets.
    """
    for name in ("celery.app.trace", "celery.beat", "celery.worker.request", "celery.worker.strategy", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("celery.app.trace").addFilter(drop_outage_traceback)
    logging.getLogger("celery.beat").addFilter(SchedulingErrorFilter())


@signals.worker_init.connect
def _lower_priority(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    lower_priority()


@signals.worker_process_init.connect
def _create_process_engine(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    """Create a database engine for each child process, because connections do not survive a fork."""
    # The queues are sometimes empty and sometimes long, so a cached query plan would often be wrong.
    plans = ("plan_cache_mode=force_custom_plan",)
    engine = make_engine(
        _settings.database_worker_url,
        pool_size=2,
        application_name="admit-worker",
        settings=plans,
        statement_seconds=_STATEMENT_SECONDS,
    )
    set_process_engine(lower_connection_priority(engine))


@signals.worker_ready.connect
def _send_startup_tasks(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    for name in STARTUP_TASKS:
        app.send_task(name, expires=60)
