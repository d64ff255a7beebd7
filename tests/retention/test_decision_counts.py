"""Deletion of old counts of decisions."""

from datetime import datetime, timedelta

import pytest

from nac.logs.retention.decision_counts import prune_counts
from tests.factories.decision_counts import count_decisions
from tests.retention.conftest import Logs

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def add(logs: Logs):
    def add(tenant: str, start: datetime, number: int = 1) -> None:
        count_decisions(logs.owner, logs.tenants[tenant], start, rejected=number)

    return add


def stored(logs: Logs, tenant: str, seconds: int, table: str = "decision_counts") -> list[tuple[datetime, int]]:
    statement = f"SELECT start_at, rejected FROM {table} WHERE tenant_id = %s AND seconds = %s ORDER BY start_at"
    return logs.sql(statement, logs.tenants[tenant], seconds)


def prune(logs: Logs, **given) -> int:
    return prune_counts(engine=logs.worker, now=logs.now, **given)


def test_minutes_become_hours_after_two_days(logs, add):
    hour = (logs.now - 2 * timedelta(days=1) - HOUR).replace(minute=0, second=0, microsecond=0)
    for minute in range(60):
        add("alpha", hour + minute * MINUTE, number=minute + 1)
    recent = logs.now.replace(second=0, microsecond=0) - HOUR
    add("alpha", recent)
    before = stored(logs, "alpha", 3600)
    # Batches are smaller than the number of rows.
    old = sum(start < logs.now - timedelta(days=2) for start, _ in stored(logs, "alpha", 60))
    assert prune(logs, batch_rows=7) == 2 * old > 60
    assert prune(logs, batch_rows=7) == 0
    assert stored(logs, "alpha", 60)[-1] == (recent, 1)
    assert all(start >= logs.now - timedelta(days=2) for start, _ in stored(logs, "alpha", 60))
    assert stored(logs, "alpha", 3600) == stored(logs, "alpha", 3600, "reject_counts") == before
    assert stored(logs, "alpha", 60) == stored(logs, "alpha", 60, "reject_counts")
    assert before[0] == (hour, sum(range(61)))


def test_hours_are_kept_for_90_days_or_as_long_as_the_log(logs, add):
    logs.choose("bravo", "auth", days=10)
    logs.choose("alpha", "auth", days=400)
    for tenant in ("alpha", "bravo"):
        for days in (9, 11, 89, 91, 120):
            add(tenant, logs.now.replace(minute=0, second=0, microsecond=0) - timedelta(days=days))
    prune(logs)
    ages = {t: [(logs.now - start).days for start, _ in stored(logs, t, 3600)] for t in ("alpha", "bravo")}
    assert ages == {"alpha": [89, 11, 9], "bravo": [9]}


def test_untrusted_clock_deletes_nothing(logs, add):
    add("alpha", logs.now - timedelta(days=200))
    logs.sql("INSERT INTO retention_clock (seen_at, doubted_until) VALUES (now(), now() + interval '1 day')")
    assert prune(logs) == 0
    logs.sql("DELETE FROM retention_clock")
    # A minute and an hour, with the counts by reason.
    assert prune(logs) == 4
