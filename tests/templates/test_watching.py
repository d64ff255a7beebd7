"""Whether a share has moved: decided about four numbers, checked against a naive count."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.templates.reject_rates import DeviceCounts, compute_p_value, has_share_moved


def naive(before: DeviceCounts, since: DeviceCounts) -> float:
    """Of all ways to say which devices are the rejected ones, those that are as unlikely as what was seen."""
    everyone = before.all + since.all
    rejected = before.rejected + since.rejected
    ways: dict[int, int] = {}
    for chosen in combinations(range(everyone), rejected):
        k = sum(each < since.all for each in chosen)
        ways[k] = ways.get(k, 0) + 1
    seen = ways[since.rejected]
    return sum(count for count in ways.values() if count <= seen) / comb(everyone, rejected)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_likelihood_is_that_of_counting(a: int, b: int, c: int, d: int) -> None:
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
        # Proven, and too little to mind.
        ((1000, 100_000), (3000, 100_000), False),
        ((1000, 100_000), (8000, 100_000), True),
    ],
)
def test_it_takes_both_size_and_proof(before: tuple[int, int], since: tuple[int, int], moved: bool) -> None:
    assert has_share_moved(DeviceCounts(*before), DeviceCounts(*since), most=0.05) == moved
