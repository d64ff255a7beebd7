"""The failure limiter, compared with a model that stores every failure."""

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radius.module.failure_keys import SharedTable
from radius.module.limiter import LOG_EVERY_MICROSECONDS, MAX_KEYS, FailureLimiter, GuessLimiter, TrustedStations
from tests.run_depth import examples

SECOND = 1_000_000
KEYS = [(0, "switch", "020000000001"), (0, "switch", "020000000002"), (1, "switch", "020000000001")]


class Model:
    """Computes each window from the list of all failures."""

    def __init__(self, window: int):
        self.window = window
        self.failures = {key: [] for key in KEYS}

    def in_window(self, key, at):
        """Failures in the window that contains `at`.

        A window begins with the first failure after the end of the previous window.
        """
        began, count = None, 0
        for failed in self.failures[key]:
            if began is None or failed - began >= self.window:
                began, count = failed, 0
            count += 1
        return count if began is not None and at - began < self.window else 0


steps = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 3 * SECOND), st.sampled_from(["fail", "look"])), max_size=60
)


@settings(max_examples=examples(150), deadline=None)
@given(steps=steps, limit=st.integers(1, 6), window_seconds=st.integers(1, 5))
def test_any_sequence_of_events_matches_the_model(steps, limit, window_seconds):
    limiter, model, at = FailureLimiter(), Model(window_seconds * SECOND), 1_700_000_000 * SECOND
    for key, later, what in steps:
        at += later
        limited = limiter.is_limited(key, limit=limit, window_seconds=window_seconds, at=at)
        assert limited == (model.in_window(key, at) >= limit)
        if what == "fail" and not limited:
            limiter.count_failure(key, window_seconds=window_seconds, at=at)
            model.failures[key].append(at)


@settings(max_examples=examples(150), deadline=None)
@given(gaps=st.lists(st.integers(0, 2 * SECOND), min_size=1, max_size=60))
def test_every_reject_is_logged_or_counted_by_a_later_one(gaps):
    limiter, key, at = FailureLimiter(), KEYS[0], 1_700_000_000 * SECOND
    limiter.count_failure(key, window_seconds=10_000, at=at)
    logged_at, told = [], 0
    for gap in gaps:
        at += gap
        suppressed = limiter.suppressed_before(key, at=at)
        if suppressed is not None:
            logged_at.append(at)
            told += 1 + suppressed
    at += LOG_EVERY_MICROSECONDS
    told += 1 + limiter.suppressed_before(key, at=at)
    assert told == len(gaps) + 1
    assert all(later - earlier >= SECOND for earlier, later in itertools.pairwise(logged_at))


def test_clock_set_back_reopens_a_closed_key():
    limiter, at = FailureLimiter(), 1_700_000_000 * SECOND
    assert limiter.suppressed_before(KEYS[0], at=at) == 0
    limiter.count_failure(KEYS[0], window_seconds=60, at=at)
    assert limiter.is_limited(KEYS[0], limit=1, window_seconds=60, at=at)
    limiter.suppressed_before(KEYS[0], at=at)
    assert limiter.suppressed_before(KEYS[0], at=at - 3600 * SECOND) == 0
    assert not limiter.is_limited(KEYS[0], limit=1, window_seconds=60, at=at - 3600 * SECOND)


def test_flood_evicts_only_the_oldest_key_of_its_tenant():
    limiter = FailureLimiter(max_keys=1_000)
    for number in range(100):
        limiter.count_failure((1, "switch", f"{number:012x}"), window_seconds=60, at=number)
    for number in range(50_000):
        limiter.count_failure((0, "switch", f"{number:012x}"), window_seconds=60, at=1_000)
    assert len(limiter._failures) == 1_000

    def is_kept(tenant, number):
        return limiter.is_limited((tenant, "switch", f"{number:012x}"), limit=1, window_seconds=60, at=1_000)

    assert all(is_kept(1, number) for number in range(100))
    assert (is_kept(0, 49_099), is_kept(0, 49_100)) == (False, True)


def test_table_of_many_tenants_is_limited():
    table = SharedTable(max_keys=100)
    for number in range(10_000):
        table.put((number % 7, "switch", str(number)), number)
    assert len(table) == 100
    assert sum(table.get((number % 7, "switch", str(number))) is not None for number in range(10_000)) == 100


def test_flood_of_user_names_is_limited():
    limiter = GuessLimiter(TrustedStations(max_stations=100), max_names=100)
    for number in range(1_000):
        limiter.count_success((0, f"user-{number}", "020000000001"))
        limiter.count_failure((0, f"user-{number}", ""), window_seconds=60, at=0)
    assert len(limiter._failures._failures) == len(limiter.trusted) == 100


HERE, ELSEWHERE = (1, "anna", "020000000001"), (1, "anna", "020000000002")


def exceed_limit(limiter, key):
    limiter.count_failure(key, window_seconds=60, at=0)
    return limiter.is_limited(key, limit=1, window_seconds=60, at=1)


def test_trusted_station_is_known_to_the_next_radiusd(tmp_path):
    """The new radiusd starts before the radiusd that knows the station ends."""
    old, new = (GuessLimiter(TrustedStations(tmp_path / "stations")) for _ in range(2))
    old.count_success(HERE)
    assert exceed_limit(new, HERE)
    old.trusted.save()
    assert not new.is_limited(HERE, limit=1, window_seconds=60, at=1)
    assert new.is_limited(ELSEWHERE, limit=1, window_seconds=60, at=1)


def test_stations_of_two_radiusds_are_merged(tmp_path):
    old, new = (TrustedStations(tmp_path / "stations") for _ in range(2))
    old.add(HERE)
    new.add(ELSEWHERE)
    old.save()
    new.save()
    kept = TrustedStations(tmp_path / "stations")
    assert HERE in kept
    assert ELSEWHERE in kept
    assert (tmp_path / "stations").stat().st_mode & 0o777 == 0o600


def test_radiusd_without_logins_does_not_write_the_file(tmp_path):
    served, shadow = (TrustedStations(tmp_path / "stations") for _ in range(2))
    served.add(HERE)
    served.save()
    written = (tmp_path / "stations").stat().st_mtime_ns
    shadow.refresh()
    shadow.save()
    assert (tmp_path / "stations").stat().st_mtime_ns == written


@pytest.mark.parametrize("content", [b"", b"\x00", b"[]", b"\x91\xa1x", b"\x91\x93\x01\xa1\xff\xa0", bytes(1000)])
def test_unreadable_file_is_ignored(tmp_path, content):
    (tmp_path / "stations").write_bytes(content)
    kept = TrustedStations(tmp_path / "stations")
    assert len(kept) == 0
    kept.add(HERE)
    kept.save()
    assert HERE in TrustedStations(tmp_path / "stations")


def test_all_keys_use_less_than_20_megabytes():
    tracemalloc.start()
    limiter = FailureLimiter()
    for number in range(MAX_KEYS + 100):
        limiter.count_failure((0, f"switch-{number}", f"{number:012x}"), window_seconds=60, at=number)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 20 << 20
