"""The statistical test of a changed rejection rate, compared with naive counting."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.onboarding.templates.repository import DeviceCounts, compute_p_value, has_share_moved


def naive(before: DeviceCounts, since: DeviceCounts) -> float:
    """The sum over all arrangements of rejected devices that are at most as likely as the observed arrangement."""
    everyone = before.all + since.all
    rejected = before.rejected + since.rejected
    ways: dict[int, int] = {}
    for chosen in combinations(range(everyone), rejected):
        k = sum(each < since.all for each in chosen)
        ways[k] = ways.get(k, 0) + 1
    seen = ways[since.rejected]
    return sum(count for count in ways.values() if count <= seen) / comb(everyone, rejected)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_probability_matches_counting(a: int, b: int, c: int, d: int) -> None:
    before, since = DeviceCounts(a, a + b), DeviceCounts(c, c + d)
    assert compute_p_value(before, since) == pytest.approx(naive(before, since))


@pytest.mark.parametrize(
    ("before", "since", "moved"),
    [
        ((5, 100), (25, 100), True),
        ((5, 100), (9, 100), False),
        ((0, 20), (5, 5), True),
        ((0, 3), (3, 3), False),
        ((0, 0), (50, 50), False),
        # A significant change, but too small to matter.
        ((1000, 100_000), (3000, 100_000), False),
        ((1000, 100_000), (8000, 100_000), True),
    ],
)
def test_change_needs_both_size_and_significance(before: tuple[int, int], since: tuple[int, int], moved: bool) -> None:
    assert has_share_moved(DeviceCounts(*before), DeviceCounts(*since), most=0.05) == moved
