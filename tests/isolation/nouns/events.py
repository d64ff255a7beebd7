"""Streams of live events."""

from tests.isolation.noun import Noun, Operation

NOUN = Noun(
    operations={
        "streamTenantEvents": Operation(4, query={"nas": "$nas", "site": "$site"}),
        # The person does not have log.read.
        "streamEvents": Operation(query={"tenant": "$tenant"}, status=403),
    },
    after=("nases",),
)
