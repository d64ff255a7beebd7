"""Budgets of storage: estimates are close, a warning comes first, and the oldest days are deleted a week later."""

from datetime import date, timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, session_scope
from nac.kit.text_format import format_size
from nac.logs.log_tables import LogLimits
from nac.logs.retention import plan, row_deletion
from nac.logs.retention import service as retention
from nac.models import AuditEntry, LogSize, RetentionLimits, RetentionNotice
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
    logs.partition(*days)
    for day in days:
        logs.add_many("alpha", day, 1_000, detail="x" * 300)
        logs.add_many("bravo", day, 10)
    return logs


def notice(logs: Logs) -> RetentionNotice:
    (found,) = notices(logs)
    return found


def notices(logs: Logs, kind: str = "budget") -> list[RetentionNotice]:
    return [found for found in logs.scalars(RetentionNotice) if found.kind == kind]


def total(logs: Logs) -> int:
    return sum(size.bytes for size in logs.scalars(LogSize) if size.tenant_id == logs.tenants["alpha"])


def test_warning_precedes_early_deletion_by_a_week(grown: Logs) -> None:
    logs = grown
    logs.enforce()
    most = total(logs) // 2
    logs.choose("alpha", "auth", days=90, bytes=most)
    assert (logs.enforce().deleted, len(logs.there("auth"))) == (0, 40)
    warned = notice(logs)
    assert (warned.log, warned.kind, warned.expected_on) == ("auth", "budget", logs.ago(-7))
    assert f"From {logs.ago(-7)} on, the oldest days are deleted before 90 days have passed." in warned.detail
    logs.now += timedelta(days=6, hours=23)
    assert logs.enforce().deleted == 0
    assert notice(logs).since == warned.since
    logs.now += timedelta(hours=2)
    done = logs.enforce()
    left = {day for _, whose, day in logs.there("auth") if whose == logs.tenants["alpha"]}
    assert done.deleted == 1_000 * (20 - len(left))
    assert total(logs) <= most < total(logs) * (len(left) + 1) / len(left)
    # The newest days remain, and no rows of other tenants are deleted.
    assert max(left) == max(day for _, _, day in logs.there("auth"))
    assert len({day for _, whose, day in logs.there("auth") if whose == logs.tenants["bravo"]}) == 20
    told = [entry for entry in logs.scalars(AuditEntry) if entry.action.startswith("retention.")]
    assert [entry.action for entry in told] == [
        *("retention.warn-budget", "retention.warn-change"),
        *["retention.delete-early"] * (20 - len(left)),
    ]
    assert told[2].after == {"rows": 1_000, "estimate": False}


def test_minimum_days_are_kept_with_any_budget(grown: Logs) -> None:
    logs = grown
    logs.choose("alpha", "auth", days=90, bytes=1 * MB)
    logs.enforce()
    assert logs.enforce(database_max_bytes=1).deleted == 13 * 1_000
    ages = {(logs.today - day).days for _, whose, day in logs.there("auth") if whose == logs.tenants["alpha"]}
    assert ages == set(range(1, 8))
    assert "The last 7 days exceed the budget and are kept." in notice(logs).detail


def test_full_disk_skips_the_week_only_beyond_the_budget(grown: Logs) -> None:
    logs = grown
    logs.enforce()
    logs.choose("alpha", "auth", days=90, bytes=total(logs) // 2)
    logs.enforce(database_max_bytes=1)
    assert len({day for _, whose, day in logs.there("auth") if whose == logs.tenants["alpha"]}) < 12
    assert len({day for _, whose, day in logs.there("auth") if whose == logs.tenants["bravo"]}) == 20


def test_lower_usage_clears_the_notice_and_restarts_the_week(grown: Logs) -> None:
    logs = grown
    logs.enforce()
    most = total(logs)
    logs.choose("alpha", "auth", days=90, bytes=most)
    logs.enforce()
    first = notice(logs)
    logs.change("alpha", "auth", bytes=most * 2)
    logs.enforce()
    assert notices(logs) == []
    logs.now += 8 * DAY
    logs.change("alpha", "auth", bytes=most // 2)
    assert logs.enforce().deleted == 0
    assert notice(logs).since > first.since


def test_lower_budget_gets_its_own_week(grown: Logs) -> None:
    """A notice of the previous budget does not count. Here the platform lowers the budget."""
    logs = grown
    logs.enforce()
    logs.choose("alpha", "auth", days=90, bytes=int(total(logs) / 0.85))
    logs.enforce()
    logs.now += 30 * DAY
    assert (logs.enforce().deleted, len(notices(logs))) == (0, 1)
    lower = max(total(logs) // 4, 1 * MB)
    with session_scope(PlatformScope(), engine=logs.app) as session:
        retention.update_limits(session, actor=ACTOR, log="auth", limits=LogLimits(7, 90, 730, lower))
    assert logs.enforce().deleted == 0
    (change,) = [each for each in notices(logs, "change") if each.tenant_id == logs.tenants["alpha"]]
    assert (change.since, change.expected_on) == (logs.now, logs.ago(-7))
    assert f"{format_size(lower)} are kept instead of " in change.detail
    assert notice(logs).expected_on == logs.ago(-7)
    # A further decrease each day does not delay the deletion.
    for age in range(1, 7):
        logs.now += DAY
        with Session(logs.owner) as session, session.begin():
            session.execute(update(RetentionLimits).values(ceiling_bytes=lower - age))
        assert logs.enforce().deleted == 0
    logs.now += DAY
    assert logs.enforce().deleted >= 10_000
    assert total(logs) <= lower


def test_early_deletion_over_several_runs_is_reported_once(grown: Logs, monkeypatch) -> None:
    logs = grown
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 300)
    logs.enforce()
    logs.choose("alpha", "auth", days=90, bytes=int(total(logs) * 0.83))
    logs.enforce()
    logs.now += 8 * DAY
    monkeypatch.setattr(row_deletion, "clock", Ticking())
    turns = []
    while deleted := logs.enforce(seconds=10).deleted:
        turns.append(deleted)
    assert len(turns) > 4
    told = [entry.after for entry in logs.scalars(AuditEntry) if entry.action == "retention.delete-early"]
    assert sum(turns) == 4_000
    assert told == [{"rows": 1_000, "estimate": False}] * 4


def test_sum_of_estimates_is_close_to_the_disk_usage(logs: Logs) -> None:
    """The test reads each table completely. The remaining bytes are page headers and unused page ends."""
    day = logs.ago(5)
    logs.partition(day)
    for tenant, rows, size in (("alpha", 8_000, 40), ("bravo", 3_000, 400), ("carol", 50, 4_000)):
        logs.add_many(tenant, day, rows, detail="x" * size)
    logs.enforce()
    with psycopg.connect(logs.database.owner_url) as connection:
        row = connection.execute("SELECT pg_total_relation_size(%s)", (f"auth_log_{day:%Y%m%d}",)).fetchone()
    assert row is not None
    estimates = {size.tenant_id: size for size in logs.scalars(LogSize)}
    assert {slug: estimates[tenant_id].rows for slug, tenant_id in logs.tenants.items()} == {
        "alpha": 8_000,
        "bravo": 3_000,
        "carol": 50,
    }
    assert sum(size.bytes for size in estimates.values()) == pytest.approx(row[0], rel=0.1)


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
