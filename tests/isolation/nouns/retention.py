"""Retention of logs, holds, and limits of the platform."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_numbers


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    if owner == Owner():
        filler.ask("updateRetentionLimits", things)


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("updateRetention", things)
    things["hold"] = filler.ask("createRetentionHold", things)["id"]


NOUN = Noun(
    operations={
        "listRetention": Operation(8),
        "listRetentionHolds": Operation(2),
        "createRetentionHold": Operation(7, {"reason": "$new_name", "log": "auth"}),
        "getRetentionHold": Operation(2),
        "deleteRetentionHold": Operation(7),
        "getRetention": Operation(8, path={"log": "log"}),
        "updateRetention": Operation(31, {"days": 60}),
        "previewRetention": Operation(10, {"days": 60}),
        "listRetentionLimits": Operation(2),
        "getRetentionLimits": Operation(2),
        "updateRetentionLimits": Operation(7, {"floor_days": 2, "default_days": 30, "ceiling_days": 400}),
        "deleteRetentionLimits": Operation(7),
    },
    things={"log": "auth"},
    unknown=unknown_numbers("hold"),
    fill_owner=_fill_owner,
    fill_tenant=_fill_tenant,
)
