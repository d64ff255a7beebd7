"""Decisions of the authentication log."""

from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from tests.factories.rows import make_row
from tests.isolation.noun import Filler, Noun, Operation, Things, find_log_entry


def _fill_tenant(filler: Filler, things: Things) -> None:
    now = utc_now()
    log = Base.metadata.tables["auth_log"]
    more = {"identity": things["user_name"], "mac": things["mac"], "method": "mab", "permitted": True}
    tables = Base.metadata.tables
    start = {"start_at": now.replace(second=0, microsecond=0)}
    with filler.session() as session:
        make_row(session, tables["decision_counts"], things["tenant_id"], **start, permitted=100 + things["number"])
        # The reason is in no response to another tenant.
        make_row(session, tables["reject_counts"], things["tenant_id"], **start, reason=f"reason-{things['mark']}")
        make_row(session, log, things["tenant_id"], at=now, cell_id=filler.cell_id, reason="rule-permitted", **more)
        things["decision"] = find_log_entry(session, log, things)


NOUN = Noun(
    operations={
        "listDecisions": Operation(5),
        "getDecision": Operation(3),
        "listDecisionCounts": Operation(2),
        "listRejectReasons": Operation(2),
    },
    unknown={"decision": "1767225600000000-1"},
    after=("sessions",),
    fill_tenant=_fill_tenant,
)
