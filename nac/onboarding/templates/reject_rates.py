"""Statistical test of whether a change of configuration affected the share of rejected devices at a tenant."""

from math import exp, lgamma
from typing import NamedTuple

# Two-sided significance level. At about one of a thousand tenants, the test reports a change that is only chance.
SIGNIFICANCE_LEVEL = 0.001


class DeviceCounts(NamedTuple):
    """Number of rejected devices, and of all devices, in a period. A device with several attempts counts once."""

    rejected: int
    all: int

    @property
    def share(self) -> float:
        return self.rejected / self.all if self.all else 0.0


def has_share_moved(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Return whether the share of rejected devices changed significantly, and by more than `most` (0.05 for 5 of 100).

    A decrease also counts, because a wrong policy may admit all devices. The test ignores differences between few
    devices. For example, 1 rejected device of 1 is not significant, but 5 of 5 after 0 of 20 is significant. A period
    without devices counts as no change, because devices may be off at night.
    """
    if not before.all or not since.all:
        return False
    return abs(since.share - before.share) > most and compute_p_value(before, since) < SIGNIFICANCE_LEVEL


def is_conclusive(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Return whether the periods have enough devices to detect a change."""
    return any(has_share_moved(before, DeviceCounts(rejected, since.all), most=most) for rejected in (0, since.all))


def compute_p_value(before: DeviceCounts, since: DeviceCounts) -> float:
    """Return the probability that chance causes a difference of at least this size (Fisher's exact test, two-sided)."""
    rejected = before.rejected + since.rejected
    lowest, highest = max(0, rejected - before.all), min(rejected, since.all)
    seen = _hypergeometric(since.rejected, before.all, since.all, rejected)
    # The tolerance is for rounding errors of the logarithms.
    return min(
        1.0,
        sum(
            p
            for k in range(lowest, highest + 1)
            if (p := _hypergeometric(k, before.all, since.all, rejected)) <= seen * (1 + 1e-7)
        ),
    )


def _hypergeometric(k: int, before: int, since: int, rejected: int) -> float:
    """Return the hypergeometric probability that `k` of the `rejected` devices are in the later period."""
    return exp(_log_binomial(since, k) + _log_binomial(before, rejected - k) - _log_binomial(before + since, rejected))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
