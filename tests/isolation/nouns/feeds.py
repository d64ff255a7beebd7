"""Feeds to other systems."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    for name in ("feed", "paused_feed"):
        filler.ask("createFeed", things | {"new_slug": things[name]})
    filler.ask("pauseFeed", things | {"feed": things["paused_feed"]})


NOUN = Noun(
    operations={
        "listFeeds": Operation(3),
        "createFeed": Operation(
            9, {"kind": "webhook", "name": "$new_slug", "settings": {"url": "https://siem.example/$new_name"}}
        ),
        "getFeed": Operation(3),
        "updateFeed": Operation(9, {"url": "https://siem.example/$new_name"}),
        "deleteFeed": Operation(8),
        "testFeed": Operation(3),
        "pauseFeed": Operation(10, {"because": "$new_name"}),
        "resumeFeed": Operation(10, path={"feed": "paused_feed"}),
        "replayFeed": Operation(11, {"since": "$lately"}),
        "rotateFeedSecret": Operation(10, {}),
    },
    names=("feed", "paused_feed"),
    fill_tenant=_fill_tenant,
)
