"""Accounting records and usage."""

from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from tests.factories.rows import make_row
from tests.isolation.noun import Filler, Noun, Operation, Things, find_log_entry


def _fill_tenant(filler: Filler, things: Things) -> None:
    now = utc_now()
    mark = {"identity": things["user_name"], "mac": things["mac"]}
    log, usage = Base.metadata.tables["accounting_log"], Base.metadata.tables["usage_hours"]
    with filler.session() as session:
        more = {"status_type": "Start", "session_id": f"s-{things['domain']}", "attributes": []}
        make_row(session, log, things["tenant_id"], at=now, cell_id=filler.cell_id, **mark, **more)
        things["record"] = find_log_entry(session, log, things)
        make_row(session, usage, things["tenant_id"], identity=things["user_name"])


NOUN = Noun(
    operations={
        "listAccounting": Operation(4),
        "getAccountingRecord": Operation(2),
        "listUsage": Operation(2),
    },
    unknown={"record": "1767225600000000-1"},
    after=("sessions",),
    fill_tenant=_fill_tenant,
)
