"""Schedule of Celery's beat: when beat sends each task."""

from typing import Any, Final

from celery.schedules import crontab

from worker.constants import ALARMS_INTERVAL_SECONDS, HEARTBEAT_INTERVAL_SECONDS


def _run_every(seconds: int) -> dict[str, Any]:
    """Entry for a frequent task.

    If a run cannot start, for example in an outage, the run expires after two intervals.
    """
    return {"schedule": seconds, "options": {"expires": 2 * seconds}}


def _run_at(*, expires: int | None = None, **times: str) -> dict[str, Any]:
    """Entry for a task that runs at these UTC times. `times` are arguments of celery.schedules.crontab."""
    return {"schedule": crontab(**times), "options": {"expires": expires} if expires else {}}


_ENTRIES: Final = {
    "alarms.publish": _run_every(ALARMS_INTERVAL_SECONDS),
    "api.prune_responses": _run_at(minute="2"),
    "authorities.refresh_status": _run_every(20),
    "certificates.renew": _run_at(minute="12"),
    "certificates.settle": _run_every(30),
    "certificates.warn": _run_at(minute="22"),
    "decisions.prune_counts": _run_at(minute="57"),
    "endpoints.expire": _run_at(minute="27"),
    "exports.prune": _run_at(minute="52"),
    "feeds.prune": _run_at(minute="*/10"),
    "jobs.prune": _run_at(hour="4", minute="17"),
    # Partitions are created a week ahead, so one successful run a week is enough.
    "logs.ensure_partitions": _run_at(minute="7"),
    "mail.prune": _run_at(minute="42"),
    "policies.prune_hits": _run_at(hour="3", minute="47"),
    "redecisions.clear_waiting": _run_at(minute="*/5", expires=300),
    "redecisions.prune": _run_at(hour="4", minute="7"),
    "replica.prune_changes": _run_at(minute="37"),
    # Rows are deleted at night in the time zone of their tenant, in runs of a few minutes.
    "retention.enforce": _run_at(minute="*/5", expires=300),
    "scep.prune_transactions": _run_at(hour="3", minute="57"),
    "secret_rotations.finish": _run_every(15),
    "sign_in.prune": _run_at(minute="32"),
    "tenants.delete_logs": _run_at(minute="17"),
    "tenants.purge": _run_at(minute="*/10", expires=600),
    "trials.keep": _run_every(60),
    "worker.heartbeat": _run_every(HEARTBEAT_INTERVAL_SECONDS),
    # This interval is the longest time until a job with work starts.
    "worker.dispatch": _run_every(1),
}
BEAT_SCHEDULE: Final = {name: {"task": name, **entry} for name, entry in _ENTRIES.items()}
# Tasks that run also when a worker starts, because scheduled runs were missed while no worker ran.
STARTUP_TASKS: Final = (
    "worker.heartbeat",
    "certificates.renew",
    "certificates.warn",
    "endpoints.expire",
    "logs.ensure_partitions",
    "replica.prune_changes",
    "tenants.delete_logs",
)
