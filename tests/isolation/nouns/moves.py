"""Moves of tenants to another cell."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_msp(filler: Filler, things: Things) -> None:
    first, second = f"{things['mark']}-1", f"{things['mark']}-2"
    filler.ask("prepareMove", {"still_tenant": first})
    filler.things[first]["still_tenant"] = second


NOUN = Noun(
    operations={
        "getTenantMove": Operation(4),
        "getMove": Operation(4),
        "prepareMove": Operation(15, {"cell": "cell-2"}, path={"tenant": "still_tenant"}),
        "switchMove": Operation(status=409),
        "finishMove": Operation(status=409),
        "cancelMove": Operation(16),
    },
    unknown={"still_tenant": "nobody"},
    after=("templates",),
    fill_msp=_fill_msp,
)
