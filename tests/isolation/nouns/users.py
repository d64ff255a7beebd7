"""Users of a tenant."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    things["user"] = filler.ask("createUser", things | {"new_name": things["user_name"]})["id"]


NOUN = Noun(
    operations={
        "listUsers": Operation(3),
        "createUser": Operation(
            11, {"name": "$new_name", "password": "correct horse battery", "groups": ["$user_group"]}
        ),
        "getUser": Operation(3),
        "updateUser": Operation(12, {"groups": ["$user_group"]}),
        "updateUserPassword": Operation(10, {"password": "another horse battery"}),
        "deleteUser": Operation(10),
        "updateUsersInBulk": Operation(
            14,
            {
                "operation": "put",
                "existing": "update",
                "items": [{"name": "$user_name", "password": "correct horse battery", "groups": ["$user_group"]}],
            },
        ),
        "exportUsers": Operation(5),
    },
    names=("user_name",),
    unknown=unknown_ids("user"),
    after=("groups",),
    fill_tenant=_fill_tenant,
)
