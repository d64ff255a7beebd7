"""Managed service providers."""

from tests.isolation.noun import Noun, Operation

NOUN = Noun(
    operations={
        "listMsps": Operation(5),
        "createMsp": Operation(4, {"slug": "$new_slug", "name": "$new_name"}),
        "getMsp": Operation(3),
        "updateMsp": Operation(4, {"name": "$new_name"}),
        "suspendMsp": Operation(13, {"with_tenants": True}),
        "resumeMsp": Operation(4),
        "deleteMsp": Operation(status=409),
    },
)
