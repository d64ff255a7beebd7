"""Custom roles of a tenant and an MSP."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Things, at_levels


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    if owner == Owner():
        # The platform has only built-in roles.
        things["slug_of_role"] = "auditor"
        return
    for role in ("slug_of_role", "slug_of_idle_role"):
        filler.ask_at(owner, "create{}Role", things | {"new_slug": things[role]})


NOUN = Noun(
    operations={
        **at_levels("list{}Roles", (2, 3)),
        **at_levels("get{}Role", (2, 3), path={"slug": "slug_of_role"}),
        **at_levels("create{}Role", (8, 7), {"slug": "$new_slug", "name": "$new_name", "permissions": ["site.read"]}),
        **at_levels("update{}Role", (9, 8), {"name": "$new_name"}, path={"slug": "slug_of_role"}),
        **at_levels("delete{}Role", (11, 10), path={"slug": "slug_of_idle_role"}),
    },
    names=("slug_of_role", "slug_of_idle_role"),
    fill_owner=_fill_owner,
)
