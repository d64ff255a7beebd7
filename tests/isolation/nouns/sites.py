"""Sites of a tenant."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    for name in ("site", "idle_site"):
        filler.ask("createSite", things | {"new_slug": things[name]})


NOUN = Noun(
    operations={
        "listSites": Operation(4),
        "createSite": Operation(9, {"slug": "$new_slug", "name": "$new_name"}),
        "getSite": Operation(5),
        "updateSite": Operation(18, {"time_zone": "Asia/Tokyo", "policy": "$policy"}),
        "deleteSite": Operation(20, path={"site": "idle_site"}),
    },
    names=("site", "idle_site"),
    after=("secret_rotations",),
    fill_tenant=_fill_tenant,
)
