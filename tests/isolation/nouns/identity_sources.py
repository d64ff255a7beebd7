"""Identity sources: directories and providers."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("createIdentitySource", things | {"new_name": things["source"]})


NOUN = Noun(
    operations={
        "listIdentitySources": Operation(2),
        "createIdentitySource": Operation(
            8,
            {
                "kind": "ldap",
                "name": "$new_name",
                "secret": "hush",
                "settings": {
                    "urls": ["ldaps://ldap.example"],
                    "base_dn": "ou=people,dc=example,dc=net",
                    "bind_dn": "cn=admit,dc=example,dc=net",
                },
            },
        ),
        "getIdentitySource": Operation(2),
        "updateIdentitySource": Operation(8, {"position": 3}),
        "deleteIdentitySource": Operation(8),
        "testIdentitySource": Operation(3, {"user": "ann", "password": "hush"}),
    },
    names=("source",),
    fill_tenant=_fill_tenant,
)
