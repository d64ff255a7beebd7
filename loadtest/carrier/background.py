from collections.abc import Sequence

from loadtest.carrier.printing import Row

JOBS: dict[str, str] = {"x": ""}


def measure_background(jobs: Sequence[str], **_: object) -> list[Row]:
    return []
