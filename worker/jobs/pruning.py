"""Deletes old rows of most tables.

Each table has a separate task, so that a failure of one task does not stop the others.
"""

from collections.abc import Callable, Mapping
from typing import Final

from celery import shared_task
from sqlalchemy.orm import Session

from nac.accounts.sign_in import history
from nac.cellformat.replica.change_feed import prune_changes
from nac.certificates.scep.service import prune_transactions
from nac.core import idempotency
from nac.core.jobs import service as jobs
from nac.core.mail import outbox
from nac.kit.db import PlatformScope, session_scope
from nac.logs.feeds.delivery_turns import fold_marks, prune_marks
from nac.logs.retention.decision_counts import prune_counts
from nac.policies.hits import prune_hits
from worker.task_classes import UpkeepTask


def _run_steps(*steps: Callable[[Session], object]) -> Callable[[], None]:
    """Return a function that calls each step in a separate transaction."""

    def run() -> None:
        for step in steps:
            with session_scope(PlatformScope()) as session:
                step(session)

    return run


_PRUNERS: Final[Mapping[str, Callable[[], object]]] = {
    "api.prune_responses": _run_steps(idempotency.prune),
    "decisions.prune_counts": prune_counts,
    "feeds.prune": _run_steps(fold_marks, prune_marks),
    "jobs.prune": _run_steps(jobs.prune),
    "mail.prune": outbox.prune,
    "policies.prune_hits": prune_hits,
    "replica.prune_changes": _run_steps(prune_changes),
    "scep.prune_transactions": prune_transactions,
    "sign_in.prune": history.prune,
}
for _name, _prune in _PRUNERS.items():
    shared_task(name=_name, base=UpkeepTask)(_prune)
