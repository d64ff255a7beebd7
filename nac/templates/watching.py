"""Whether a tenant's devices fare otherwise since a change: a decision about four numbers."""

from math import exp, lgamma
from typing import NamedTuple

# As rare as this by chance, both ways: of a thousand tenants that are watched, one is stopped for nothing.
LEAST_LIKELY = 0.001


class Devices(NamedTuple):
    """Heard in a time: each counts once, however often it tried."""

    rejected: int
    all: int

    @property
    def share(self) -> float:
        return self.rejected / self.all if self.all else 0.0


def has_moved(before: Devices, since: Devices, *, most: float) -> bool:
    """Whether the share of devices that are rejected moved by more than `most` (0.05 is 5 in 100), up or down, and by
    more than chance explains.

    Down is as bad as up: then the network may be open. With few devices nothing is proven: one of one that is rejected
    is no move, five of five is one where none of twenty was. Nobody heard since is no move: it may be night.
    """
    if not before.all or not since.all:
        return False
    return abs(since.share - before.share) > most and likelihood(before, since) < LEAST_LIKELY


def can_tell(before: Devices, since: Devices, *, most: float) -> bool:
    """Whether so many devices could show a move at all: were all of them rejected, or none."""
    return any(has_moved(before, Devices(rejected, since.all), most=most) for rejected in (0, since.all))


def likelihood(before: Devices, since: Devices) -> float:
    """Of a difference at least so great where both times are alike (Fisher's exact test, two-sided)."""
    rejected = before.rejected + since.rejected
    lowest, highest = max(0, rejected - before.all), min(rejected, since.all)
    seen = _chance(since.rejected, before.all, since.all, rejected)
    # A hair above, since sums of logarithms are not exact.
    return min(
        1.0,
        sum(
            p
            for k in range(lowest, highest + 1)
            if (p := _chance(k, before.all, since.all, rejected)) <= seen * (1 + 1e-7)
        ),
    )


def _chance(k: int, before: int, since: int, rejected: int) -> float:
    """Hypergeometric: that `k` of the rejected are among those since."""
    return exp(_choose(since, k) + _choose(before, rejected - k) - _choose(before + since, rejected))


def _choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
