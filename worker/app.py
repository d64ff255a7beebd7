"""The Celery application for `python -m worker`."""

import logging
from typing import Any

from celery import Celery, signals
from celery.schedules import crontab

from nac.kit.db import make_engine, set_process_engine
from nac.kit.settings import Settings, load_settings
from worker.beat import BeatRestarter
from worker.constants import (
    ALARMS_INTERVAL_SECONDS,
    DISPATCH_INTERVAL_SECONDS,
    HEARTBEAT_INTERVAL_SECONDS,
    ROTATIONS_INTERVAL_SECONDS,
    SETTLE_INTERVAL_SECONDS,
    STATUS_INTERVAL_SECONDS,
    TRIALS_INTERVAL_SECONDS,
)
from worker.log_filters import SchedulingErrorFilter, drop_outage_traceback
from worker.priority import lower_connection_priority, lower_priority

JOB_MODULES = (
    "worker.jobs.alarms",
    "worker.jobs.api",
    "worker.jobs.job_queue",
    "worker.jobs.audit",
    "worker.jobs.authorities",
    "worker.jobs.certificates",
    "worker.jobs.endpoints",
    "worker.jobs.exports",
    "worker.jobs.feeds",
    "worker.jobs.heartbeat",
    "worker.jobs.logs",
    "worker.jobs.dispatch",
    "worker.jobs.mail",
    "worker.jobs.policies",
    "worker.jobs.redecisions",
    "worker.jobs.replica",
    "worker.jobs.retention",
    "worker.jobs.scep",
    "worker.jobs.secret_rotations",
    "worker.jobs.self_tests",
    "worker.jobs.sign_in",
    "worker.jobs.tenants",
    "worker.jobs.trials",
)
# Also run when a worker starts, to catch up after a time without one.
STARTUP_JOBS = (
    "worker.heartbeat",
    "certificates.renew",
    "certificates.warn",
    "endpoints.expire",
    "logs.ensure_partitions",
    "replica.prune_changes",
    "tenants.delete_logs",
)


# Less than a job's own time limit, so that a silent server gives one line in the log.
_STATEMENT_SECONDS = 240


def broker_url(redis_url: str) -> str:
    """Celery's form of the URL: "unix:///path" becomes "redis+socket:///path"."""
    scheme, separator, rest = redis_url.partition("://")
    return f"redis+socket{separator}{rest}" if scheme == "unix" else redis_url


def make_app(settings: Settings) -> Celery:
    app = Celery("admit", broker=broker_url(settings.redis_url), include=JOB_MODULES)
    app.conf.update(
        # A job of a dying worker runs again; jobs are written for that.
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        # Results belong in the database, where clients poll them.
        task_ignore_result=True,
        task_default_queue="admit",
        task_soft_time_limit=300,
        task_time_limit=330,
        timezone="UTC",
        broker_connection_retry_on_startup=True,
        # Redis may be down for long: never give up.
        broker_connection_max_retries=None,
        beat_schedule={
            "worker.heartbeat": {
                "task": "worker.heartbeat",
                "schedule": HEARTBEAT_INTERVAL_SECONDS,
                # Skip runs missed during an outage.
                "options": {"expires": 2 * HEARTBEAT_INTERVAL_SECONDS},
            },
            "worker.look": {
                "task": "worker.look",
                "schedule": DISPATCH_INTERVAL_SECONDS,
                "options": {"expires": 2 * DISPATCH_INTERVAL_SECONDS},
            },
            "alarms.publish": {
                "task": "alarms.publish",
                "schedule": ALARMS_INTERVAL_SECONDS,
                "options": {"expires": 2 * ALARMS_INTERVAL_SECONDS},
            },
            "api.prune_answers": {"task": "api.prune_answers", "schedule": crontab(minute="2")},
            "certificates.renew": {"task": "certificates.renew", "schedule": crontab(minute="12")},
            "certificates.warn": {"task": "certificates.warn", "schedule": crontab(minute="22")},
            "certificates.settle": {
                "task": "certificates.settle",
                "schedule": SETTLE_INTERVAL_SECONDS,
                "options": {"expires": 2 * SETTLE_INTERVAL_SECONDS},
            },
            "feeds.prune": {"task": "feeds.prune", "schedule": crontab(minute="*/10")},
            "authorities.refresh_status": {
                "task": "authorities.refresh_status",
                "schedule": STATUS_INTERVAL_SECONDS,
                "options": {"expires": 2 * STATUS_INTERVAL_SECONDS},
            },
            "endpoints.expire": {"task": "endpoints.expire", "schedule": crontab(minute="27")},
            "exports.prune": {"task": "exports.prune", "schedule": crontab(minute="52")},
            "jobs.prune": {"task": "jobs.prune", "schedule": crontab(hour="4", minute="17")},
            # Partitions are created a week ahead, so one good hour a week is enough.
            "logs.ensure_partitions": {"task": "logs.ensure_partitions", "schedule": crontab(minute="7")},
            "mail.prune": {"task": "mail.prune", "schedule": crontab(minute="42")},
            "policies.prune_hits": {"task": "policies.prune_hits", "schedule": crontab(hour="3", minute="47")},
            "redecisions.clear_waiting": {
                "task": "redecisions.clear_waiting",
                "schedule": crontab(minute="*/5"),
                "options": {"expires": 300},
            },
            "redecisions.prune": {"task": "redecisions.prune", "schedule": crontab(hour="4", minute="7")},
            "replica.prune_changes": {"task": "replica.prune_changes", "schedule": crontab(minute="37")},
            # Rows are deleted at night in their tenant's time zone, a few minutes' worth at a time.
            "retention.enforce": {
                "task": "retention.enforce",
                "schedule": crontab(minute="*/5"),
                "options": {"expires": 300},
            },
            "scep.prune_transactions": {
                "task": "scep.prune_transactions",
                "schedule": crontab(hour="3", minute="57"),
            },
            "tenants.purge": {
                "task": "tenants.purge",
                "schedule": crontab(minute="*/10"),
                "options": {"expires": 600},
            },
            "sign_in.prune": {"task": "sign_in.prune", "schedule": crontab(minute="32")},
            "secret_rotations.finish": {
                "task": "secret_rotations.finish",
                "schedule": ROTATIONS_INTERVAL_SECONDS,
                "options": {"expires": 2 * ROTATIONS_INTERVAL_SECONDS},
            },
            "trials.keep": {
                "task": "trials.keep",
                "schedule": TRIALS_INTERVAL_SECONDS,
                "options": {"expires": 2 * TRIALS_INTERVAL_SECONDS},
            },
            "tenants.delete_logs": {"task": "tenants.delete_logs", "schedule": crontab(minute="17")},
        },
    )
    return app


_settings = load_settings(required=("DATABASE_URL", "DATABASE_WORKER_URL", "REDIS_URL"))
app = make_app(_settings)
app.steps["worker"].add(BeatRestarter)
app.set_default()


@signals.after_setup_logger.connect
def _configure_loggers(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    """Reduce log lines: three for each heartbeat would hide those of jobs. Failures are still logged.

    httpx would log URLs from tenants, which may contain secrets.
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
    """Create an engine for each child, because connections do not survive a fork."""
    # Job queues are sometimes empty and sometimes long, so a cached plan is useless.
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
def _run_startup_jobs(**_: Any) -> None:  # noqa: ANN401 -- Celery's signal arguments
    for name in STARTUP_JOBS:
        app.send_task(name, expires=60)
