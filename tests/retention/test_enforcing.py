"""After a turn of retention exactly those rows are there that the settings want."""

from tests.retention.conftest import Logs


def test_each_tenant_keeps_what_it_asked_for_in_a_day_that_they_share(logs: Logs) -> None:
    days = [logs.ago(n) for n in (1, 8, 9, 20, 21, 40)]
    logs.partition(*days[:-1])
    for tenant in logs.tenants:
        logs.add("auth", tenant, *days)
    logs.choose("alpha", "auth", days=8)
    logs.choose("bravo", "auth", days=20)
    logs.choose("carol", "auth", days=40)
    done = logs.enforce()
    alpha, bravo, carol = logs.tenants.values()
    assert logs.there("auth") == {
        *(("auth", alpha, logs.ago(n)) for n in (1, 8)),
        *(("auth", bravo, logs.ago(n)) for n in (1, 8, 9, 20)),
        *(("auth", carol, logs.ago(n)) for n in (1, 8, 9, 20, 21, 40)),
    }
    assert (done.dropped, done.deleted) == (0, 6)


def test_day_that_nobody_wants_is_dropped_with_its_partition(logs: Logs) -> None:
    logs.partition(logs.ago(91), logs.ago(90))
    for tenant in logs.tenants:
        logs.add("auth", tenant, logs.ago(91), logs.ago(90))
    done = logs.enforce()
    assert (done.dropped, done.deleted) == (2, 0)
    assert logs.ago(91) not in logs.partitions()
    assert logs.ago(90) in logs.partitions()
    assert {day for _, _, day in logs.there("auth")} == {logs.ago(90)}
