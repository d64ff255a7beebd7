"""NASes and their configuration snippets."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    things["nas"] = filler.ask("createNas", things | {"new_name": things["nas_name"]})["id"]


NOUN = Noun(
    operations={
        "listNases": Operation(3),
        "createNas": Operation(8, {"name": "$new_name", "identifier": "$new_name", "site": "$site"}),
        "listVendors": Operation(1),
        "getNas": Operation(4),
        "updateNas": Operation(20, {"name": "$new_name", "site": "$site"}),
        "deleteNas": Operation(10),
        "listSnippets": Operation(1),
        "getSnippet": Operation(6, query={"site": "$site", "nas": "$nas_name"}),
        "updateNasesInBulk": Operation(
            9, {"operation": "put", "items": [{"name": "$new_name", "identifier": "$new_name", "site": "$site"}]}
        ),
        "exportNases": Operation(3),
    },
    things={"snippet": "cisco-iosxe-ibns2"},
    names=("nas_name",),
    unknown=unknown_ids("nas"),
    after=("sites", "secret_rotations"),
    fill_tenant=_fill_tenant,
)
