"""API tokens of a tenant, an MSP and the platform."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Things, at_levels, unknown_ids


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    token = filler.ask_at(owner, "create{}Token", things | {"new_name": f"token-{things['mark']}"})
    things["token_id"] = token["id"]


NOUN = Noun(
    operations={
        **at_levels("list{}Tokens", (2, 3, 2)),
        **at_levels(
            "create{}Token", (9, 8, 7), {"name": "$new_name", "permissions": ["member.read"], "expires_at": "$soon"}
        ),
        **at_levels("get{}Token", (2, 3, 2)),
        **at_levels("revoke{}Token", (8, 7, 6)),
    },
    unknown=unknown_ids("token_id"),
    fill_owner=_fill_owner,
)
