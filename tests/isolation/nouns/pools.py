"""Address pools."""

from datetime import timedelta

from sqlalchemy import update

from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    taken = f"{things['lease'].rpartition('.')[0]}.0/28"
    filler.ask("createPool", things | {"new_name": things["pool"], "new_range": taken})
    addresses, now = Base.metadata.tables["pool_addresses"], utc_now()
    leased = {"state": "leased", "mac": things["found_mac"], "until": now + timedelta(hours=1), "decided_at": now}
    with filler.session() as session:
        own = update(addresses).where(addresses.c.tenant_id == things["tenant_id"])
        session.execute(own.where(addresses.c.address == things["lease"]).values(leased))


NOUN = Noun(
    operations={
        "listPools": Operation(4),
        "createPool": Operation(19, {"name": "$new_name", "ranges": ["$new_range"], "site": "$site"}),
        "listPoolLeases": Operation(3),
        "releasePoolAddress": Operation(9, {"address": "$lease"}),
        "getPool": Operation(5, query={"site": "$site"}),
        "updatePool": Operation(
            24, {"grace_seconds": 60, "reserved": {"$mac": "$free_address"}}, query={"site": "$site"}
        ),
        "deletePool": Operation(23, query={"site": "$site"}),
    },
    things={"new_range": "10.1{number:02}.0.0/28", "lease": "10.{number}.0.7", "free_address": "10.{number}.0.9"},
    names=("pool",),
    after=("sites",),
    fill_tenant=_fill_tenant,
)
