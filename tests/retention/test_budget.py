"""Budgets of storage: estimates are close, a warning comes first, and the oldest days are deleted a week later."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.kit.db import PlatformScope, session_scope
from nac.kit.text_format import format_size
from nac.logs.log_tables import LogLimits
from nac.logs.retention import plan, row_deletion
from nac.logs.retention import service as retention
from nac.models import AuditEntry, LogSize, RetentionNotice
from tests.factories.tenancy import ACTOR
from tests.retention.conftest import DAY, Logs, Ticking

TODAY = date(2026, 11, 21)
MB = 1 << 20

daily = st.dictionaries(st.integers(0, 40).map(lambda n: TODAY - n * DAY), st.integers(0, 1000), max_size=30)


@given(sizes=daily, most=st.integers(0, 5_000))
def test_newest_days_fill_the_budget_exactly(sizes: dict[date, int], most: int) -> None:
    since = TODAY - 30 * DAY
    first = plan.first_kept_day(sizes, since=since, budget=most)
    assert plan.sum_bytes(sizes, since=first) <= most
    if first > since:
        assert plan.sum_bytes(sizes, since=first - DAY) > most
    else:
        assert first == since


@given(sizes=daily, most=st.integers(0, 5_000), days=st.integers(1, 60))
def test_expected_day_matches_a_simulation(sizes: dict[date, int], most: int, days: int) -> None:
    past = {day: size for day, size in sizes.items() if day < TODAY}
    age = (TODAY - min(past)).days if past else 1
    growth = sum(size for day, size in past.items() if day >= TODAY - 7 * DAY) / min(7, age)
    expected = None
    for ahead in range(days + 1):
        kept = sum(size for day, size in sizes.items() if day >= TODAY + (ahead - days) * DAY) + growth * ahead
        # At the exact limit, rounding may produce either result.
        if abs(kept - most) < 1e-6 and kept != most:
            return
        if kept > most:
            expected = TODAY + ahead * DAY
            break
    assert plan.predict_exceeded_day(sizes, today=TODAY, days=days, budget=most) == expected


@pytest.fixture
def grown(logs: Logs) -> Logs:
    """About 0.5 MB of alpha on each of 20 days, and a small amount of bravo."""
    days = [logs.ago(age) for age in range(1, 21)]
    logs.partition(*days, logs=("auth",))
    for day in days:
        logs.add_many("alpha", day, 1_000, detail="x" * 300)
        logs.add_many("bravo", day, 10)
    return logs


def notices(logs: Logs, kind: str = "budget") -> list[RetentionNotice]:
    return [found for found in logs.scalars(RetentionNotice) if found.kind == kind]


def days_of(logs: Logs, tenant: str) -> set[date]:
    return {day for _, whose, day in logs.there("auth") if whose == logs.tenants[tenant]}


def total(logs: Logs) -> int:
    return sum(size.bytes for size in logs.scalars(LogSize) if size.tenant_id == logs.tenants["alpha"])


def test_warning_precedes_early_deletion_by_a_week(grown: Logs) -> None:
    grown.enforce()
    most = total(grown) // 2
    grown.choose("alpha", "auth", days=90, bytes=most)
    assert (grown.enforce().deleted, len(grown.there("auth"))) == (0, 40)
    (warned,) = notices(grown)
    assert (warned.log, warned.kind, warned.expected_on) == ("auth", "budget", grown.ago(-7))
    assert f"From {grown.ago(-7)} on, the oldest days are deleted before 90 days have passed." in warned.detail
    grown.now += timedelta(days=6, hours=23)
    assert grown.enforce().deleted == 0
    assert notices(grown)[0].since == warned.since
    grown.now += timedelta(hours=2)
    done = grown.enforce()
    left = days_of(grown, "alpha")
    assert done.deleted == 1_000 * (20 - len(left))
    assert total(grown) <= most < total(grown) * (len(left) + 1) / len(left)
    # The newest days remain, and no rows of other tenants are deleted.
    assert max(left) == max(day for _, _, day in grown.there("auth"))
    assert len(days_of(grown, "bravo")) == 20
    told = [entry for entry in grown.scalars(AuditEntry) if entry.action.startswith("retention.")]
    assert [entry.action for entry in told] == [
        *("retention.warn-budget", "retention.warn-change"),
        *["retention.delete-early"] * (20 - len(left)),
    ]
    assert told[2].after == {"rows": 1_000, "estimate": False}


def test_minimum_days_are_kept_with_any_budget(grown: Logs) -> None:
    grown.choose("alpha", "auth", days=90, bytes=1 * MB)
    grown.enforce()
    assert grown.enforce(database_max_bytes=1).deleted == 13 * 1_000
    assert days_of(grown, "alpha") == {grown.ago(age) for age in range(1, 8)}
    assert "The last 7 days exceed the budget and are kept." in notices(grown)[0].detail


def test_full_disk_skips_the_week_only_beyond_the_budget(grown: Logs) -> None:
    grown.enforce()
    grown.choose("alpha", "auth", days=90, bytes=total(grown) // 2)
    grown.enforce(database_max_bytes=1)
    assert len(days_of(grown, "alpha")) < 12
    assert len(days_of(grown, "bravo")) == 20


def test_lower_usage_clears_the_notice_and_restarts_the_week(grown: Logs) -> None:
    grown.enforce()
    most = total(grown)
    grown.choose("alpha", "auth", days=90, bytes=most)
    grown.enforce()
    (first,) = notices(grown)
    grown.change("alpha", "auth", bytes=most * 2)
    grown.enforce()
    assert notices(grown) == []
    grown.now += 8 * DAY
    grown.change("alpha", "auth", bytes=most // 2)
    assert grown.enforce().deleted == 0
    assert notices(grown)[0].since > first.since


def test_lower_budget_gets_its_own_week(grown: Logs) -> None:
    """A notice of the previous budget does not count. Here the platform lowers the budget."""
    grown.enforce()
    grown.choose("alpha", "auth", days=90, bytes=int(total(grown) / 0.85))
    grown.enforce()
    grown.now += 30 * DAY
    assert (grown.enforce().deleted, len(notices(grown))) == (0, 1)
    lower = max(total(grown) // 4, 1 * MB)
    with session_scope(PlatformScope(), engine=grown.app) as session:
        retention.update_limits(session, actor=ACTOR, log="auth", limits=LogLimits(7, 90, 730, lower))
    assert grown.enforce().deleted == 0
    (change,) = [each for each in notices(grown, "change") if each.tenant_id == grown.tenants["alpha"]]
    assert (change.since, change.expected_on) == (grown.now, grown.ago(-7))
    assert f"{format_size(lower)} are kept instead of " in change.detail
    assert notices(grown)[0].expected_on == grown.ago(-7)
    # A further decrease each day does not delay the deletion.
    for age in range(1, 7):
        grown.now += DAY
        grown.sql("UPDATE retention_limits SET ceiling_bytes = %s", lower - age)
        assert grown.enforce().deleted == 0
    grown.now += DAY
    assert grown.enforce().deleted >= 10_000
    assert total(grown) <= lower


def test_early_deletion_over_several_runs_is_reported_once(grown: Logs, monkeypatch) -> None:
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 300)
    grown.enforce()
    grown.choose("alpha", "auth", days=90, bytes=int(total(grown) * 0.83))
    grown.enforce()
    grown.now += 8 * DAY
    monkeypatch.setattr(row_deletion, "clock", Ticking())
    turns = []
    while deleted := grown.enforce(seconds=10).deleted:
        turns.append(deleted)
    assert len(turns) > 4
    told = [entry.after for entry in grown.scalars(AuditEntry) if entry.action == "retention.delete-early"]
    assert sum(turns) == 4_000
    assert told == [{"rows": 1_000, "estimate": False}] * 4


def test_sum_of_estimates_is_close_to_the_disk_usage(logs: Logs) -> None:
    """The test reads each table completely. The remaining bytes are page headers and unused page ends."""
    day = logs.ago(5)
    logs.partition(day)
    for tenant, rows, size in (("alpha", 8_000, 40), ("bravo", 3_000, 400), ("carol", 50, 4_000)):
        logs.add_many(tenant, day, rows, detail="x" * size)
    logs.enforce()
    [(used,)] = logs.sql("SELECT pg_total_relation_size(%s)", f"auth_log_{day:%Y%m%d}")
    estimates = {size.tenant_id: size for size in logs.scalars(LogSize)}
    assert [estimates[logs.tenants[slug]].rows for slug in ("alpha", "bravo", "carol")] == [8_000, 3_000, 50]
    assert sum(size.bytes for size in estimates.values()) == pytest.approx(used, rel=0.1)


def test_sampled_large_partition_misses_no_tenant(logs: Logs) -> None:
    """The partition contains sequences of rows of one tenant, as batches are shipped."""
    day = logs.ago(5)
    logs.partition(day)
    shares = {"alpha": 60, "bravo": 30}
    for _ in range(60):
        for tenant, rows in shares.items():
            logs.add_many(tenant, day, rows * 10, detail="x" * 300)
    logs.add_many("carol", day, 1)
    logs.enforce()
    rows = {size.tenant_id: size.rows for size in logs.scalars(LogSize)}
    for tenant, share in shares.items():
        assert rows[logs.tenants[tenant]] == pytest.approx(share * 600, rel=0.2)
    assert rows[logs.tenants["carol"]] >= 1
    logs.choose("carol", "auth", days=7)
    logs.take_effect()
    logs.now += 10 * DAY
    assert logs.enforce().deleted == 1


def test_deleted_rows_count_for_no_tenant(logs: Logs) -> None:
    day = logs.ago(20)
    logs.partition(day)
    for tenant in ("alpha", "bravo"):
        logs.add_many(tenant, day, 2_000, detail="x" * 100)
    logs.enforce()
    before = {size.tenant_id: size.bytes for size in logs.scalars(LogSize)}
    logs.choose("alpha", "auth", days=7)
    logs.take_effect()
    logs.enforce()
    logs.add_many("bravo", day, 1)
    logs.enforce()
    after = {size.tenant_id: size.bytes for size in logs.scalars(LogSize)}
    bravo = logs.tenants["bravo"]
    assert after == {bravo: pytest.approx(before[bravo], rel=0.05)}
