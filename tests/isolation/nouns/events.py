"""Streams of live events."""

from tests.isolation.noun import Noun, Operation

NOUN = Noun(
    operations={
        "streamTenantEvents": Operation(4, query={"nas": "$nas", "site": "$site"}),
        "streamEvents": Operation(3, query={"tenant": "$tenant"}),
    },
    after=("nases",),
)
