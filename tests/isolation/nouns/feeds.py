"""Feeds to other systems."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    for name in ("feed", "paused_feed"):
        filler.ask("createFeed", things | {"new_slug": things[name]})
    filler.ask("pauseFeed", things | {"feed": things["paused_feed"]})


NOUN = Noun(
    operations={
        "listFeeds": Operation(4),
        "createFeed": Operation(
            10, {"kind": "webhook", "name": "$new_slug", "settings": {"url": "https://siem.example/$new_name"}}
        ),
        "getFeed": Operation(4),
        "updateFeed": Operation(11, {"url": "https://siem.example/$new_name"}),
        "deleteFeed": Operation(9),
        "testFeed": Operation(3),
        "pauseFeed": Operation(12, {"because": "$new_name"}),
        "resumeFeed": Operation(12, path={"feed": "paused_feed"}),
        "replayFeed": Operation(13, {"since": "$lately"}),
        "rotateFeedSecret": Operation(12, {}),
    },
    names=("feed", "paused_feed"),
    fill_tenant=_fill_tenant,
)
