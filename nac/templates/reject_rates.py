"""Whether a tenant's devices fare otherwise since a change: a decision about four numbers."""

from math import exp, lgamma
from typing import NamedTuple

# As rare as this by chance, both ways: of a thousand tenants that are watched, one is stopped for nothing.
SIGNIFICANCE_LEVEL = 0.001


class DeviceCounts(NamedTuple):
    """Heard in a time: each counts once, however often it tried."""

    rejected: int
    all: int

    @property
    def share(self) -> float:
        return self.rejected / self.all if self.all else 0.0


def has_share_moved(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Whether the share of devices that are rejected moved by more than `most` (0.05 is 5 in 100), up or down, and by
    more than chance explains.

    Down is as bad as up: then the network may be open. With few devices nothing is proven: one of one that is rejected
    is no move, five of five is one where none of twenty was. Nobody heard since is no move: it may be night.
    """
    if not before.all or not since.all:
        return False
    return abs(since.share - before.share) > most and compute_p_value(before, since) < SIGNIFICANCE_LEVEL


def is_conclusive(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Whether so many devices could show a move at all: were all of them rejected, or none."""
    return any(has_share_moved(before, DeviceCounts(rejected, since.all), most=most) for rejected in (0, since.all))


def compute_p_value(before: DeviceCounts, since: DeviceCounts) -> float:
    """Of a difference at least so great where both times are alike (Fisher's exact test, two-sided)."""
    rejected = before.rejected + since.rejected
    lowest, highest = max(0, rejected - before.all), min(rejected, since.all)
    seen = _hypergeometric(since.rejected, before.all, since.all, rejected)
    # A hair above, since sums of logarithms are not exact.
    return min(
        1.0,
        sum(
            p
            for k in range(lowest, highest + 1)
            if (p := _hypergeometric(k, before.all, since.all, rejected)) <= seen * (1 + 1e-7)
        ),
    )


def _hypergeometric(k: int, before: int, since: int, rejected: int) -> float:
    """Hypergeometric: that `k` of the rejected are among those since."""
    return exp(_log_binomial(since, k) + _log_binomial(before, rejected - k) - _log_binomial(before + since, rejected))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
