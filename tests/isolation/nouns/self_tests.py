"""Self-tests of a tenant."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    things["self_test_id"] = filler.ask("startSelfTest", things)["id"]


NOUN = Noun(
    operations={
        "listSelfTests": Operation(2),
        "startSelfTest": Operation(10),
        "getSelfTest": Operation(2),
    },
    unknown=unknown_ids("self_test_id"),
    fill_tenant=_fill_tenant,
)
