"""Tenants."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_msp(filler: Filler, things: Things) -> None:
    """A tenant whose deletion is pending."""
    leaving = f"{things['mark']}-3"
    filler.ask("createTenantOfMsp", things | {"new_slug": leaving})
    filler.ask("deleteTenant", things | {"tenant": leaving})
    things["leaving_tenant"] = filler.things[f"{things['mark']}-1"]["leaving_tenant"] = leaving


NOUN = Noun(
    operations={
        "listTenants": Operation(3),
        "listDiscoveredTenants": Operation(5),
        "search": Operation(6, query={"text": "$mac"}),
        "listTenantHealth": Operation(5),
        "createTenant": Operation(83, {"msp": "$msp", "slug": "$new_slug", "name": "$new_name"}),
        "createTenantOfMsp": Operation(83, {"slug": "$new_slug", "name": "$new_name"}),
        "getTenant": Operation(4),
        "updateTenant": Operation(13, {"name": "$new_name", "silent_days": 7}),
        "suspendTenant": Operation(14),
        "resumeTenant": Operation(11),
        "deleteTenant": Operation(14, query={"days": 3}),
        "restoreTenant": Operation(17, path={"tenant": "leaving_tenant"}),
    },
    unknown=unknown_ids("tenant_id") | {"leaving_tenant": "nobody"},
    after=("moves",),
    fill_msp=_fill_msp,
)
