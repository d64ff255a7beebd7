"""Audit log of a tenant, an MSP and the platform."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Things, at_levels, unknown_numbers


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    things["entry_id"] = filler.ask_at(owner, "list{}Audit", things)["items"][0]["id"]


NOUN = Noun(
    operations={
        **at_levels("list{}Audit", (3, 4, 3)),
        **at_levels("get{}AuditHead", (3, 4, 3)),
        **at_levels("export{}Audit", (5, 6, 5)),
        **at_levels("get{}AuditEntry", (3, 4, 3)),
    },
    unknown=unknown_numbers("entry_id"),
    after=("members",),
    fill_owner=_fill_owner,
)
