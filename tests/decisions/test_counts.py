"""Numbers of decisions by interval and by reason: rounding, zero fill, limits of the period, and the plan."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.orm import Session

from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import RejectCount, Tenant
from nac.models.log import HOURS_KEPT, MINUTES_KEPT
from nac.sessions.decisions import counts
from tests.factories.decision_counts import count_decisions
from tests.factories.tenancy import Platform, make_tenant
from tests.factories.tenant_fixtures import tenant

__all__ = ["tenant"]
NOW = datetime(2026, 3, 31, 12, 30, 20, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def add(owner_engine: Engine, tenant: Tenant):
    def add(ago: timedelta, *, of: TenantId | None = None, **more) -> None:
        count_decisions(owner_engine, of or tenant.id, NOW - ago, **more)

    return add


@pytest.fixture
def read(app_engine: Engine, tenant: Tenant):
    def read(function, **options):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            return function(session, tenant_id=tenant.id, now=NOW, **options)

    return read


def test_default_is_the_last_hour_by_minute_with_zeros(read, add):
    add(timedelta(0), rejected=7)
    add(MINUTE, permitted=2)
    add(MINUTE, permitted=3)
    add(MINUTE, quarantined=4)
    # Before the last 60 minutes.
    add(60 * MINUTE, permitted=1)
    found = read(counts.count_decisions)
    assert [each.start for each in found] == [NOW.replace(second=0) - n * MINUTE for n in range(59, -1, -1)]
    assert [each[1:] for each in found] == [(0, 0, 0)] * 58 + [(5, 4, 0), (0, 0, 7)]


@pytest.mark.parametrize(
    ("interval", "since", "until", "starts"),
    [
        ("minute", "11:59:30", "12:01:00", ["11:59", "12:00"]),
        ("minute", "12:00:00", "12:00:01", ["12:00"]),
        ("hour", "09:59:59", "12:00:00", ["09:00", "10:00", "11:00"]),
        ("day", "00:00:00", "12:00:00", ["00:00"]),
    ],
)
def test_period_is_extended_to_whole_intervals(read, interval, since, until, starts):
    def at(time: str) -> datetime:
        return datetime.fromisoformat(f"2026-03-31T{time}Z")

    found = read(counts.count_decisions, interval=interval, since=at(since), until=at(until))
    assert [f"{each.start:%H:%M}" for each in found] == starts


def test_days_and_hours_have_the_sums_of_their_minutes(read, add):
    for ago in (MINUTE, 3 * MINUTE, 2 * HOUR, DAY, 3 * DAY):
        add(ago, permitted=10)
    hours = read(counts.count_decisions, interval="hour", since=NOW - 3 * HOUR)
    assert [(f"{each.start:%H}", each.permitted) for each in hours] == [("09", 0), ("10", 10), ("11", 0), ("12", 20)]
    days = read(counts.count_decisions, interval="day", since=NOW - 4 * DAY)
    assert [(each.start.day, each.permitted) for each in days] == [(27, 0), (28, 10), (29, 0), (30, 10), (31, 30)]
    assert len(read(counts.count_decisions, interval="day")) == 60


@pytest.mark.parametrize(
    ("options", "place", "message"),
    [
        ({"since": NOW, "until": NOW}, "until", "`until` must be after `since`"),
        ({"since": NOW - 1500 * MINUTE}, "interval", "The period has 1501 intervals"),
        ({"interval": "hour", "since": NOW - 1500 * HOUR}, "interval", "The period has 1501 intervals"),
        ({"since": NOW - MINUTES_KEPT - 2 * MINUTE, "until": NOW - MINUTES_KEPT}, "since", "by minute for 2 days"),
        ({"until": NOW - MINUTES_KEPT}, "until", "by minute for 2 days"),
        ({"interval": "day", "since": NOW - HOURS_KEPT - 2 * DAY}, "since", "by hour for 90 days"),
        ({"interval": "hour", "until": datetime(1970, 1, 1, 1, tzinfo=UTC)}, "until", "by hour for 90 days"),
        ({"since": NOW, "until": datetime(9999, 12, 30, tzinfo=UTC)}, "interval", "intervals. At most 1500"),
    ],
)
def test_invalid_period_is_rejected_with_its_field(read, options, place, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        read(counts.count_decisions, **options)
    assert refused.value.place == place


@pytest.mark.parametrize("options", [{"since": NOW - 1499 * MINUTE}, {"interval": "day", "since": NOW - HOURS_KEPT}])
def test_longest_periods_are_accepted(read, options):
    assert len(read(counts.count_decisions, **options)) <= counts.MAX_INTERVALS


def test_reasons_are_sorted_by_frequency_with_share_and_remedy(read, add):
    add(HOUR, rejected=3, reason="unknown-mac")
    add(2 * HOUR, rejected=3, reason="unknown-mac")
    add(MINUTE, rejected=2, reason="wrong-password")
    # Of another version of Admit.
    add(5 * MINUTE, rejected=1, reason="made-up")
    add(5 * MINUTE, permitted=100)
    add(2 * DAY, rejected=100, reason="wrong-password")
    found = read(counts.count_reject_reasons)
    assert found.rejected == 9
    assert [(each.reason.code, each.count, each.share) for each in found.reasons] == [
        ("unknown-mac", 6, 0.6667),
        ("wrong-password", 2, 0.2222),
        ("made-up", 1, 0.1111),
    ]
    assert [each.last_at for each in found.reasons] == [
        (NOW - ago).replace(second=0) for ago in (HOUR, MINUTE, 5 * MINUTE)
    ]
    assert found.reasons[1].reason.title == "Wrong password"
    assert found.reasons[1].reason.advice.startswith("The password is wrong.")
    assert (found.since, found.until) == ((NOW - DAY).replace(second=0), NOW.replace(second=0) + MINUTE)


def test_long_periods_have_reasons_by_hour(read, add):
    add(2 * DAY, rejected=100, reason="wrong-password")
    add(MINUTE, rejected=1, reason="wrong-password")
    found = read(counts.count_reject_reasons, since=NOW - 30 * DAY)
    assert [(each.count, each.last_at) for each in found.reasons] == [(101, NOW.replace(minute=0, second=0))]
    assert (found.since, found.until) == (datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 31, 13, tzinfo=UTC))
    old = read(counts.count_reject_reasons, since=NOW - 3 * DAY, until=NOW - DAY)
    assert [each.count for each in old.reasons] == [100]
    assert read(counts.count_reject_reasons, since=NOW - 3 * HOUR, until=NOW - HOUR).reasons == []
    with pytest.raises(InvalidInput, match="by hour for 90 days"):
        read(counts.count_reject_reasons, since=NOW - 91 * DAY)


def test_other_tenants_do_not_count(read, add, app_engine: Engine, platform: Platform):
    bravo = TenantId(make_tenant(app_engine, platform, "bravo").id)
    add(MINUTE, rejected=5, of=bravo)
    assert not any(each.rejected for each in read(counts.count_decisions))
    assert read(counts.count_reject_reasons).reasons == []


def test_counts_of_a_period_are_read_by_index(app_engine: Engine, owner_engine: Engine, tenant: Tenant):
    """The table has 60 days of hours and two days of minutes. A query reads only the rows of its period."""
    fill = text(
        "INSERT INTO reject_counts"
        " SELECT :tenant, :seconds, :now - n * make_interval(secs => :seconds), 'reason-' || r, 1"
        " FROM generate_series(0, :most) n, generate_series(1, 5) r"
    )
    with Session(owner_engine) as session, session.begin():
        for seconds, start, most in ((60, NOW.replace(second=0), 2880), (3600, NOW.replace(minute=0, second=0), 1440)):
            session.execute(fill, {"tenant": tenant.id, "seconds": seconds, "now": start, "most": most})
    with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE reject_counts"))
    conditions = counts._in_period(RejectCount, TenantId(tenant.id), "minute", NOW - HOUR, NOW)
    query = select(RejectCount.reason, func.sum(RejectCount.rejected)).where(*conditions).group_by("reason")
    sql = query.compile(app_engine, compile_kwargs={"literal_binds": True})
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        plan = "\n".join(session.scalars(text(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}")))
    assert "pk_reject_counts" in plan
    assert "Seq Scan" not in plan
    assert "rows=300 " in plan
