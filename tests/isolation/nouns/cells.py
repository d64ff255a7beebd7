"""Cells and the status of the platform."""

from tests.isolation.noun import Noun, Operation

NOUN = Noun(
    operations={
        "listCells": Operation(3),
        "getCell": Operation(3),
        "updateCell": Operation(9, {"labels": ["frankfurt"]}),
        "getPlatformStatus": Operation(3),
    },
    things={"cell": "cell-1"},
)
