"""Members of a tenant, an MSP and the platform."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Things, at_levels, unknown_ids


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    member = filler.ask_at(owner, "create{}Member", things | {"new_email": f"member@{things['domain']}"})
    things["member_id"] = member["id"]


NOUN = Noun(
    operations={
        **at_levels("list{}Members", (3, 4, 3)),
        **at_levels("get{}Member", (3, 4, 3)),
        **at_levels("create{}Member", (11, 10, 8), {"email": "$new_email", "role": "$slug_of_role"}),
        **at_levels("invite{}Member", (10, 9, 8)),
        **at_levels("update{}Member", (16, 15, 12), {"role": "auditor"}),
        **at_levels("delete{}Member", (13, 12, 11)),
    },
    unknown=unknown_ids("member_id"),
    after=("roles",),
    fill_owner=_fill_owner,
)
