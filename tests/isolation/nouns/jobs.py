"""Background jobs of a tenant, an MSP and the platform."""

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.models import Job
from tests.isolation.noun import Filler, Noun, Things, at_levels, unknown_ids


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    now = utc_now()
    common = {"title": f"Work of {things['domain']}", "requested_by": "x", "input_sealed": b"x", **owner.columns()}
    ended = {"state": "failed", "started_at": now, "ended_at": now, "problem": {"code": "x", "title": "x"}, "needs": []}
    waiting, failed = Job(kind="test.wait", **common), Job(kind="test.fail", **common, **ended)
    with filler.session() as session:
        session.add_all((waiting, failed))
        session.flush()
        things |= {"waiting_job": str(waiting.id), "failed_job": str(failed.id), "job_id": str(failed.id)}


NOUN = Noun(
    operations={
        **at_levels("list{}Jobs", (2, 3, 2)),
        **at_levels("get{}Job", (2, 3, 2)),
        **at_levels("cancel{}Job", (7, 6, 5), path={"job_id": "waiting_job"}),
        **at_levels("retry{}Job", (9, 8, 7), path={"job_id": "failed_job"}),
    },
    unknown=unknown_ids("waiting_job", "failed_job", "job_id"),
    fill_owner=_fill_owner,
)
