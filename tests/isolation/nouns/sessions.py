"""Live sessions."""

from nac.kit.clock import utc_now
from nac.models import RadiusSession
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_numbers


def _fill_tenant(filler: Filler, things: Things) -> None:
    now = utc_now()
    row = RadiusSession(
        tenant_id=things["tenant_id"],
        nas_key="n",
        session_id=f"s-{things['domain']}",
        mac_key=things["mac"],
        started_at=now,
        updated_at=now,
        nas_id=things["nas"],
        nas_port="1",
        identity=things["user_name"],
        mac=things["mac"],
    )
    with filler.session() as session:
        session.add(row)
        session.flush()
        things["session"] = row.id


NOUN = Noun(
    operations={
        "listSessions": Operation(2),
        "getSession": Operation(2),
        "disconnectSession": Operation(9),
        "reauthenticateSession": Operation(9),
        "bounceSession": Operation(9),
    },
    unknown=unknown_numbers("session"),
    after=("nases",),
    fill_tenant=_fill_tenant,
)
