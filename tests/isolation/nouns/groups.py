"""Groups of endpoints and of users."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    for name in ("group", "idle_group"):
        things[f"{name}_id"] = filler.ask("createEndpointGroup", things | {"new_name": things[name]})["id"]
    things["user_group_id"] = filler.ask("createUserGroup", things | {"new_name": things["user_group"]})["id"]


NOUN = Noun(
    operations={
        "listEndpointGroups": Operation(2),
        "createEndpointGroup": Operation(8, {"name": "$new_name"}),
        "getEndpointGroup": Operation(2, path={"group": "group_id"}),
        "updateEndpointGroup": Operation(11, {"name": "$new_name", "rule": None}, path={"group": "idle_group_id"}),
        "deleteEndpointGroup": Operation(9, path={"group": "idle_group_id"}),
        "updateEndpointGroupPassphrase": Operation(
            7, {"passphrase": "correct horse battery"}, path={"group": "group_id"}
        ),
        "deleteEndpointGroupPassphrase": Operation(6, path={"group": "group_id"}),
        "listUserGroups": Operation(2),
        "createUserGroup": Operation(8, {"name": "$new_name"}),
        "getUserGroup": Operation(2, path={"group": "user_group_id"}),
        "updateUserGroup": Operation(10, {"name": "$new_name"}, path={"group": "user_group_id"}),
        "deleteUserGroup": Operation(9, path={"group": "user_group_id"}),
    },
    names=("group", "idle_group", "user_group"),
    unknown=unknown_ids("group_id", "idle_group_id", "user_group_id"),
    fill_tenant=_fill_tenant,
)
