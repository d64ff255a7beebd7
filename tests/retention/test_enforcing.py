"""After a run of retention, exactly the rows that the settings retain remain, for any interruption."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from datetime import time as clock

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from nac.kit.db import queries
from nac.kit.errors import ScopeViolation
from nac.kit.ids import TenantId
from nac.logs.log_tables import DEFAULT_LIMITS
from nac.logs.retention import holds, row_deletion
from nac.logs.retention.clock import ClockReading
from nac.logs.retention.plan import load_limits, load_plan
from nac.logs.retention.row_deletion import DeletionWindow
from nac.models import RetentionLimits, RetentionNotice, RetentionTerm
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.exports.killed_script import killed_at_the_end
from tests.factories.tenancy import ACTOR
from tests.polling import PATIENCE_SECONDS, until
from tests.retention.conftest import DAY, TABLES, Logs, Ticking
from tests.run_depth import examples

SHORT = ("auth", "accounting", "coa")
# The checked ages in days. The first days have partitions, and rows of the other days are in the default partition.
AGES = (1, 7, 8, 10, 30, 31, 90, 91, 100)
WITH_PARTITION = AGES[:-1]

choices = st.fixed_dictionaries(
    {
        "days": st.dictionaries(
            st.tuples(st.sampled_from(("alpha", "bravo", "carol")), st.sampled_from(SHORT)),
            st.sampled_from((7, 8, 10, 30, 90, 100)),
        ),
        "held": st.lists(
            st.tuples(
                st.sampled_from(("alpha", "bravo", "carol")),
                st.sampled_from((None, *SHORT)),
                st.one_of(st.none(), st.sampled_from(AGES)),
                st.one_of(st.none(), st.sampled_from(AGES)),
                st.booleans(),
            ).filter(lambda hold: hold[2] is None or hold[3] is None or hold[2] >= hold[3]),
            max_size=3,
        ),
        "rows": st.sets(
            st.tuples(
                st.sampled_from(("alpha", "bravo", "carol")), st.sampled_from(tuple(TABLES)), st.sampled_from(AGES)
            ),
            min_size=3,
            max_size=40,
        ),
    }
)


@given(chosen=choices)
@settings(max_examples=examples(12, least=5), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_kept_rows_remain(logs: Logs, chosen) -> None:
    logs.forget()
    logs.partition(*(logs.ago(age) for age in WITH_PARTITION))
    for tenant, log, age in chosen["rows"]:
        logs.add(log, tenant, logs.ago(age), rows=2)
    for (tenant, log), days in chosen["days"].items():
        logs.choose(tenant, log, days=days)
    for tenant, log, first, last, in_force in chosen["held"]:
        period = {"first_day": first and logs.ago(first), "last_day": last and logs.ago(last)}
        logs.hold(tenant, log=log, **period, cleared_at=None if in_force else logs.now - 8 * DAY)

    def is_kept(tenant: str, log: str, age: int) -> bool:
        days = chosen["days"].get((tenant, log), DEFAULT_LIMITS[log].default_days)
        held = any(
            whose == tenant and of in (None, log) and (first or 1000) >= age >= (last or 0) and in_force
            for whose, of, first, last, in_force in chosen["held"]
        )
        return age <= days or held

    logs.enforce()
    expected = {
        (log, logs.tenants[tenant], logs.ago(age)) for tenant, log, age in chosen["rows"] if is_kept(tenant, log, age)
    }
    assert logs.there() == expected
    # A partition without rows is dropped when it is older than the retention of every tenant.
    for age in WITH_PARTITION:
        days = [chosen["days"].get((tenant, "auth"), 90) for tenant in logs.tenants]
        if age > max(days) and not any(log == "auth" and day == logs.ago(age) for log, _, day in expected):
            assert logs.ago(age) not in logs.partitions()
    assert logs.enforce().deleted == 0


def test_partition_with_rows_of_others_is_never_dropped(logs: Logs) -> None:
    """The database checks the partition itself, and trusts neither the sizes nor the caller."""
    day = logs.ago(20)
    logs.partition(day)
    logs.add("auth", "alpha", day)
    logs.add("auth", "bravo", day)
    everyone = list(logs.tenants.values())

    def drop(log: str, day: date, given_up: list[TenantId]) -> str:
        with psycopg.connect(logs.database.worker_url) as connection:
            [(outcome,)] = connection.execute("SELECT drop_log_partition(%s, %s, %s)", (log, day, given_up)).fetchall()
        return outcome

    assert [drop("auth", day, [logs.tenants[tenant]]) for tenant in ("alpha", "bravo")] == ["wanted", "wanted"]
    assert drop("auth", logs.ago(21), []) == "missing"
    for log, young in (("auth", logs.today), ("auth", logs.ago(1)), ("auth", logs.ago(-3)), ("coa", day)):
        assert drop(log, young, everyone) == "wanted"
    logs.hold("alpha", log="auth")
    assert drop("auth", day, everyone) == "wanted"
    assert day in logs.partitions()


def test_rows_of_deleted_tenants_do_not_retain_a_partition(logs: Logs) -> None:
    day = logs.ago(91)
    logs.partition(day)
    logs.add("auth", "carol", day)
    logs.end("carol", tenants.delete_tenant, tenant_purge.purge_tenant)
    logs.enforce()
    assert day not in logs.partitions()


def test_only_the_worker_drops_and_measures(logs: Logs) -> None:
    for url in (logs.database.app_url, logs.database.cell_url):
        for call in ("drop_log_partition('auth', current_date - 9, '{}')", "measure_log('auth', current_date)"):
            with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT {call}")


def set_time_zone(logs: Logs, tenant: str, zone: str) -> None:
    logs.sql("UPDATE sites SET time_zone = %s WHERE tenant_id = %s", zone, logs.tenants[tenant])


def test_rows_are_deleted_only_in_the_tenant_night(logs: Logs) -> None:
    for tenant, zone in (("alpha", "Asia/Tokyo"), ("bravo", "America/New_York")):
        set_time_zone(logs, tenant, zone)
    logs.partition(logs.ago(20))
    for tenant in logs.tenants:
        logs.choose(tenant, "auth", days=10)
        logs.add("auth", tenant, logs.ago(20))
    # A tenant retains this day, so the worker deletes row by row.
    logs.choose("carol", "accounting", days=100)
    logs.add("auth", "carol", logs.ago(9))
    logs.hold("carol", first_day=logs.ago(20), last_day=logs.ago(20))
    # 18:00 UTC is 3:00 in Tokyo and 12:00 or 13:00 in New York.
    logs.now = datetime.combine(logs.today, clock(18), UTC)
    night = DeletionWindow(clock(1), clock(5))
    assert logs.enforce(window=night).deleted == 1
    assert ("auth", logs.tenants["alpha"], logs.ago(20)) not in logs.there()
    assert ("auth", logs.tenants["bravo"], logs.ago(20)) in logs.there()


def test_window_may_cross_midnight(logs: Logs) -> None:
    with logs.scope(logs.worker) as session:
        plan = load_plan(session, tenant_id=logs.tenants["alpha"], now=logs.now, limits=load_limits(session))
    for begins, ends, open_at, closed_at in ((1, 5, [1], [0, 5]), (22, 4, [23, 3], [12])):
        window = DeletionWindow(clock(begins), clock(ends))
        for hour in open_at + closed_at:
            at = datetime.combine(logs.today, clock(hour, 30), UTC)
            assert window.is_open(plan, at) is (hour in open_at), (begins, ends, hour)


def set_limits(logs: Logs, floor: int, default: int, ceiling: int) -> None:
    insert = "INSERT INTO retention_limits (log, floor_days, default_days, ceiling_days) VALUES ('auth', %s, %s, %s)"
    logs.sql(insert, floor, default, ceiling)


def test_platform_limits_override_older_settings(logs: Logs) -> None:
    logs.partition(logs.ago(40), logs.ago(20))
    logs.choose("alpha", "auth", days=730)
    logs.choose("bravo", "auth", days=7)
    for tenant in ("alpha", "bravo"):
        logs.add("auth", tenant, logs.ago(40), logs.ago(20), logs.ago(10))
    set_limits(logs, 15, 15, 30)
    logs.enforce()
    assert {(whose, day) for _, whose, day in logs.there("auth")} == {
        (logs.tenants["alpha"], logs.ago(20)),
        (logs.tenants["alpha"], logs.ago(10)),
        (logs.tenants["bravo"], logs.ago(10)),
    }


def test_shorter_retention_takes_effect_a_week_later(logs: Logs) -> None:
    """This applies to a retention that a tenant or the platform decreases. An increase takes effect at once."""
    logs.partition(logs.ago(40), logs.ago(20))
    for tenant in ("alpha", "bravo"):
        logs.add("auth", tenant, logs.ago(40), logs.ago(20))
    logs.choose("alpha", "auth", days=60)
    logs.enforce()
    logs.change("alpha", "auth", days=10)
    set_limits(logs, 7, 28, 30)
    assert logs.enforce().deleted == 0
    told = {notice.tenant_id: notice for notice in logs.scalars(RetentionNotice)}
    for tenant, before, days, lost in (("alpha", 60, 10, 2), ("bravo", 90, 28, 1)):
        notice = told[logs.tenants[tenant]]
        assert (notice.kind, notice.expected_on) == ("change", logs.ago(-7))
        assert f"{days} days are kept instead of {before}. This deletes {lost} existing days." in notice.detail
    logs.now += 6 * DAY
    logs.change("alpha", "auth", days=30)
    assert logs.enforce().deleted == 0
    logs.now += DAY
    logs.enforce()
    # Alpha has undone the decrease, so nothing is deleted.
    assert {(whose, (logs.today - day).days - 7) for _, whose, day in logs.there("auth")} == {
        (logs.tenants["alpha"], 20),
        (logs.tenants["bravo"], 20),
    }
    assert logs.scalars(RetentionNotice) == []


def test_unchanged_terms_are_not_written_again(logs: Logs) -> None:
    def written() -> list[tuple[str, ...]]:
        return logs.sql("SELECT tenant_id::text, log, part, xmin::text FROM retention_terms ORDER BY 1, 2, 3")

    logs.enforce()
    before = written()
    logs.enforce()
    assert before == written() != []


def test_run_deletes_few_days_and_none_with_a_doubtful_clock(logs: Logs) -> None:
    days = [logs.ago(age) for age in (100, 101, 102)]
    logs.partition(*days)
    logs.add("auth", "alpha", *days)
    logs.add("coa", "alpha", *days)
    logs.enforce(at=ClockReading(logs.now, is_trusted=False))
    assert len(logs.there("auth", "coa")) == 6
    assert logs.scalars(RetentionTerm) == []
    logs.enforce(most_days=2)
    assert {day for _, _, day in logs.there("auth")} == {days[0]}
    assert {day for _, _, day in logs.there("coa")} == {days[0]}


def test_tenant_cannot_set_platform_limits(logs: Logs) -> None:
    limits = RetentionLimits(log="auth", floor_days=2, default_days=2, ceiling_days=9_999)
    with pytest.raises(ScopeViolation), logs.scope() as session:
        session.add(limits)


def test_failing_tenant_keeps_only_its_own_rows(logs: Logs, caplog) -> None:
    logs.partition(logs.ago(20), logs.ago(91))
    for tenant in ("alpha", "bravo"):
        logs.choose(tenant, "auth", days=10)
        logs.add("auth", tenant, logs.ago(20), logs.ago(91))
    set_time_zone(logs, "alpha", "Nowhere/Atlantis")
    assert logs.enforce().deleted == 2
    assert {whose for _, whose, _ in logs.there("auth")} == {logs.tenants["alpha"]}
    assert f"cannot calculate the retention of tenant {logs.tenants['alpha']}" in caplog.text


def test_late_rows_of_a_processed_day_are_found(logs: Logs) -> None:
    logs.partition(logs.ago(20))
    logs.choose("alpha", "auth", days=10)
    logs.add("auth", "bravo", logs.ago(20))
    for _ in range(2):
        logs.add("auth", "alpha", logs.ago(20))
        assert logs.enforce().deleted == 1


def test_waiting_requests_are_never_deleted(logs: Logs) -> None:
    logs.add("coa", "alpha", logs.ago(100), ended_at=None, state="queued")
    logs.add("coa", "alpha", logs.ago(99))
    assert logs.enforce().deleted == 1
    assert logs.there("coa") == {("coa", logs.tenants["alpha"], logs.ago(100))}


def test_batches_alternate_stop_in_time_and_resume(logs: Logs, monkeypatch) -> None:
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 10)
    monkeypatch.setattr(row_deletion, "clock", Ticking())
    logs.partition(logs.ago(20))
    logs.add("auth", "carol", logs.ago(20))
    for tenant in ("alpha", "bravo"):
        logs.choose(tenant, "auth", days=10)
        logs.add_many(tenant, logs.ago(20), 95)
    turns = []
    while done := logs.enforce(seconds=20).deleted:
        turns.append(done)
        if len(turns) == 1:
            assert {count_of(logs, tenant) < 95 for tenant in ("alpha", "bravo")} == {True}
    assert sum(turns) == 190
    assert len(turns) > 3
    assert len(logs.there("auth")) == 1


def test_rows_locked_by_another_end_no_day_early(logs: Logs, monkeypatch) -> None:
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 10)
    logs.partition(logs.ago(20))
    logs.add("auth", "carol", logs.ago(20))
    logs.choose("alpha", "auth", days=10)
    logs.add_many("alpha", logs.ago(20), 35)
    taken = iter([3])

    @contextmanager
    def by_position(session: Session) -> Iterator[None]:
        for most in taken:
            picked = "SELECT id FROM auth_log WHERE tenant_id = %s ORDER BY at LIMIT %s"
            logs.sql(f"DELETE FROM auth_log WHERE id IN ({picked})", logs.tenants["alpha"], most)
        with queries.force_ctid_scan(session):
            yield

    monkeypatch.setattr(row_deletion, "force_ctid_scan", by_position)
    assert logs.enforce().deleted == 32
    assert count_of(logs, "alpha") == 0


def count_of(logs: Logs, *slugs: str) -> int:
    [(number,)] = logs.sql(
        "SELECT count(*) FROM auth_log WHERE tenant_id = ANY(%s)", [logs.tenants[slug] for slug in slugs]
    )
    return number


KILLED = """
import sys, datetime
from nac.kit.db import make_engine
from nac.logs.retention import row_deletion
from nac.logs.retention.clock import ClockReading
from nac.logs.retention.plan import load_limits, load_plan
from nac.logs.retention.enforcement import enforce_retention
row_deletion.BATCH_ROWS = 50
row_deletion.PAUSE_SECONDS = 0.01
enforce_retention(
    at=ClockReading(datetime.datetime.fromisoformat(sys.argv[2]), True), engine=make_engine(sys.argv[1]), folder=None,
    seconds=60, most_days=9,
    window=row_deletion.DeletionWindow(datetime.time(0), datetime.time.max), measure_every=datetime.timedelta(0),
)
"""


def test_killed_run_is_completed_by_the_next(logs: Logs) -> None:
    logs.partition(logs.ago(20), logs.ago(91))
    logs.choose("alpha", "auth", days=10)
    logs.add_many("alpha", logs.ago(20), 5_000)
    logs.add_many("bravo", logs.ago(20), 100)
    for _ in range(2):
        before = count_of(logs, "alpha", "bravo")
        with killed_at_the_end(KILLED, logs.database.worker_url, logs.now.isoformat()):
            until(lambda before=before: count_of(logs, "alpha", "bravo") <= before - 200, "four batches")
    assert 0 < count_of(logs, "alpha") < 5_000
    logs.enforce()
    assert (count_of(logs, "alpha"), count_of(logs, "bravo")) == (0, 100)


def test_partitions_are_dropped_while_writers_succeed(logs: Logs) -> None:
    """The writers use current days, the day being deleted, and a day without a partition."""
    gone = [logs.ago(age) for age in range(91, 101)]
    logs.partition(*gone)
    for day in gone:
        logs.add_many("alpha", day, 200)
    ends, failures, written = threading.Event(), [], [0, 0]

    def write(number: int) -> None:
        with psycopg.connect(logs.database.owner_url, autocommit=True) as connection:
            while not ends.is_set():
                for day in (logs.today, gone[5], logs.ago(200)):
                    try:
                        connection.execute(
                            "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason)"
                            " VALUES (%s, %s, 1, 'mab', true, 'x')",
                            (datetime.combine(day, clock(12), UTC), logs.tenants["bravo"]),
                        )
                        written[number] += 1
                    except psycopg.Error as exc:
                        failures.append(exc)

    threads = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while set(gone) & logs.partitions() and time.monotonic() < deadline:
        logs.enforce()
    ends.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not set(gone) & logs.partitions()
    # The statistics include the last writes after about a second.
    while logs.there("auth") != {("auth", logs.tenants["bravo"], logs.today)} and time.monotonic() < deadline:
        logs.enforce()
    assert count_of(logs, "bravo") == sum(written) / 3


def test_partition_with_a_long_reader_is_dropped_later(logs: Logs) -> None:
    day = logs.ago(91)
    logs.partition(day)
    logs.add("auth", "alpha", day)
    with psycopg.connect(logs.database.owner_url) as reader:
        reader.execute("SELECT count(*) FROM auth_log")
        done = logs.enforce()
        # The worker does not delete row by row either, because it will drop the day's partition.
        assert (done.deleted, day in logs.partitions()) == (0, True)
    logs.enforce()
    assert day not in logs.partitions()


def test_hold_waits_for_a_running_delete_then_blocks(logs: Logs) -> None:
    day, alpha = logs.ago(20), logs.tenants["alpha"]
    logs.partition(day)
    logs.choose("alpha", "auth", days=10)
    logs.add("auth", "alpha", day)
    with psycopg.connect(logs.database.worker_url) as deleting_now:
        deleting_now.execute("SELECT pg_advisory_xact_lock_shared(hashtext('retention_holds'))")
        held = threading.Thread(target=create_hold, args=(logs,))
        held.start()
        held.join(0.3)
        assert held.is_alive()
    held.join(PATIENCE_SECONDS)
    assert not held.is_alive()
    assert logs.enforce().deleted == 0
    assert logs.there("auth") == {("auth", alpha, day)}
    hold_id = clear_hold(logs)
    # The rows remain for another week, so that users can notice a mistake.
    assert logs.enforce().deleted == 0
    (notice,) = [notice for notice in logs.scalars(RetentionNotice) if notice.log == "auth"]
    assert notice.expected_on == logs.ago(-7)
    assert f"hold {hold_id} no longer applies. This deletes 1 existing days." in notice.detail
    logs.sql("UPDATE retention_holds SET cleared_at = cleared_at - interval '8 days'")
    logs.enforce()
    assert logs.there("auth") == set()
    assert logs.scalars(RetentionNotice) == []


def create_hold(logs: Logs) -> None:
    with logs.scope() as session:
        holds.create_hold(session, actor=ACTOR, tenant_id=logs.tenants["alpha"], reason="court order 7")


def clear_hold(logs: Logs) -> int:
    alpha = logs.tenants["alpha"]
    with logs.scope() as session:
        (hold,) = holds.list_holds(session, tenant_id=alpha)
        holds.clear_hold(session, actor=ACTOR, tenant_id=alpha, hold_id=hold.id)
    return hold.id


def test_tenant_with_a_hold_is_not_deleted(logs: Logs) -> None:
    create_hold(logs)
    logs.end("alpha", tenants.delete_tenant)
    with pytest.raises(holds.HoldInForce, match="court order 7"):
        logs.end("alpha", tenant_purge.purge_tenant)
    clear_hold(logs)
    logs.end("alpha", tenant_purge.purge_tenant)
