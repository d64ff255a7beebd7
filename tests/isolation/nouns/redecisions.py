"""Re-decisions of live sessions."""

from nac.models import Redecision
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_numbers


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("updateRedecisionSettings", things)
    held = {"scope": "all", "state": "waiting", "waits_for": "preview", "cause": things["mac"]}
    with filler.session() as session:
        session.add(row := Redecision(tenant_id=things["tenant_id"], **held))
        session.flush()
        things |= {"held_redecision": row.id, "redecision": row.id}


NOUN = Noun(
    operations={
        "listRedecisions": Operation(2),
        "startRedecision": Operation(10),
        "previewRedecision": Operation(18, {"policy": "$policy", "version": "$version"}),
        "getRedecisionSettings": Operation(2),
        "updateRedecisionSettings": Operation(9, {"mode": "preview"}),
        "getRedecision": Operation(6),
        "approveRedecision": Operation(7, path={"redecision": "held_redecision"}),
        "cancelRedecision": Operation(11),
    },
    unknown=unknown_numbers("redecision", "held_redecision"),
    fill_tenant=_fill_tenant,
)
