"""A decrease takes effect a week after its announcement, an increase at once. No user can delay either."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nac.logs.retention.terms import NOTICE_PERIOD, UNBOUNDED, ChosenTerms, LogTerms, TermPart

NOW = datetime(2026, 11, 21, tzinfo=UTC)
# Chosen settings, and the number of hours until the check.
steps = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 24 * 9)), min_size=1, max_size=30)


@given(begin=st.integers(1, 9), steps=steps)
def test_effective_terms_never_undercut_the_last_week(begin: int, steps: list[tuple[int, int]]) -> None:
    part, now = TermPart(begin), NOW
    seen = [(now, begin)]
    for wanted, hours in steps:
        now += timedelta(hours=hours)
        seen.append((now, wanted))
        part = part.advance(wanted, now)
        assert part.value >= wanted
        assert part.value >= max(value for at, value in seen if at >= now - NOTICE_PERIOD)
        assert (part.announced is None) == (part.value == wanted)
        if part.announced is not None and part.announced_at is not None:
            assert wanted <= part.announced < part.value
            assert now - part.announced_at < NOTICE_PERIOD


@given(st.lists(st.integers(1, 9), min_size=15, max_size=40))
def test_terms_chosen_for_two_weeks_are_in_effect(wanted: list[int]) -> None:
    part = TermPart(10)
    for day, each in enumerate(wanted):
        part = part.advance(each, NOW + timedelta(days=day))
    assert part.value <= max(wanted[-15:])


def test_no_budget_is_unlimited_and_ending_exports_waits() -> None:
    before = LogTerms.begin(ChosenTerms(days=90, floor=7, bytes=None, export=True))
    assert (before.days, before.floor, before.bytes, before.export) == (90, 7, None, True)
    after = before.advance(ChosenTerms(days=90, floor=7, bytes=5, export=False), NOW)
    assert (after.bytes, after.export, set(after.announced)) == (None, True, {"bytes", "export"})
    assert after.parts["bytes"] == TermPart(UNBOUNDED, 5, NOW)
    at_last = after.advance(ChosenTerms(days=90, floor=7, bytes=5, export=False), NOW + NOTICE_PERIOD)
    assert (at_last.bytes, at_last.export, at_last.announced) == (5, False, {})
