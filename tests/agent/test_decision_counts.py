"""Counts of decisions and times of NASes, which are written with the log rows and exactly once."""

import random

import msgspec
import psycopg
import pytest

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from radius.agent.replay import replay
from radius.agent.shipping import decision_counts
from radius.agent.shipping.shipper import shipping_engine
from radius.agent.shipping.streams import AuthStream
from tests.agent.journal_records import AT, SECOND, accounting, auth, certificate_sent, drain
from tests.agent.stored_rows import count

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
# Start of an hour. AT is 6 minutes and 40 seconds later.
START = AT - AT % HOUR
NAS = "00000000-0000-4000-8000-00000000000a"


def counts(owner, seconds=60):
    """Permitted, quarantined and rejected by minutes after START."""
    rows = owner.execute(
        "SELECT ((extract(epoch FROM start_at) * 1000000 - %s) / 60000000)::int, permitted, quarantined, rejected "
        "FROM decision_counts WHERE seconds = %s ORDER BY tenant_id, start_at",
        (START, seconds),
    )
    return rows.fetchall()


def rejects(owner, seconds=60):
    """Rejects by minutes after START and reason."""
    rows = owner.execute(
        "SELECT ((extract(epoch FROM start_at) * 1000000 - %s) / 60000000)::int, reason, rejected "
        "FROM reject_counts WHERE seconds = %s ORDER BY start_at, reason",
        (START, seconds),
    )
    return rows.fetchall()


def totals(owner):
    """Numbers of log rows, and of decisions by minute and by hour."""
    by_period = [sum(sum(row[1:]) for row in counts(owner, seconds)) for seconds in (60, 3600)]
    return count(owner, "auth_log"), *by_period


def test_decisions_are_counted_by_minute_and_hour(owner, alpha, journal):
    journal.ship(
        auth(alpha, at=START + 6 * MINUTE),
        auth(alpha, at=START + 7 * MINUTE - 1),
        auth(alpha, at=START + 7 * MINUTE),
        auth(alpha, at=START + HOUR),
        auth(alpha, permitted=False, suppressed=41),
        auth(alpha, permitted=False, reason="wrong-password"),
        auth(alpha, verdict="quarantine"),
    )
    assert counts(owner) == [(6, 2, 1, 43), (7, 1, 0, 0), (60, 1, 0, 0)]
    assert counts(owner, 3600) == [(0, 3, 1, 43), (60, 1, 0, 0)]
    assert rejects(owner) == [(6, "unknown-mac", 42), (6, "wrong-password", 1)]
    assert rejects(owner, 3600) == [(0, "unknown-mac", 42), (0, "wrong-password", 1)]


def test_monitor_mode_counts_what_happened(owner, alpha, journal):
    journal.ship(
        auth(alpha, verdict="deny", monitored="site", reason="rule-denied"),
        auth(alpha, verdict="quarantine", monitored="rule"),
        auth(alpha, permitted=False, verdict="permit", monitored="site"),
    )
    assert counts(owner) == [(6, 2, 0, 1)]
    assert rejects(owner) == [(6, "unknown-mac", 1)]


def test_self_tests_do_not_count(owner, alpha, journal):
    journal.ship(
        auth(alpha, nas_identifier=NAS_IDENTIFIER), auth(alpha, nas_identifier=NAS_IDENTIFIER, permitted=False)
    )
    assert totals(owner) == (2, 0, 0)
    assert rejects(owner) == []


def test_abandoned_conversation_counts_as_a_reject(owner, alpha, journal):
    journal.ship(certificate_sent(alpha, "c1"))
    journal.clock.now = AT + 31 * SECOND
    drain(journal.auth)
    assert rejects(owner) == [(7, "conversation-abandoned", 1)]
    assert totals(owner) == (1, 1, 1)


def test_shipped_batch_is_not_counted_again(owner, alpha, journal):
    """Another shipper with a stale position finds that the stored position has moved."""
    second = journal.shipper(AuthStream())
    journal.write(auth(alpha))
    drain(second)
    journal.write(*(auth(alpha, at=AT + n) for n in range(1, 10)))
    drain(journal.auth)
    drain(second)
    second.close()
    assert totals(owner) == (10, 10, 10)


def test_killed_transaction_counts_nothing_and_its_retry_once(owner, database, alpha, journal, monkeypatch):
    write = decision_counts.DecisionCounts.write
    kills = iter([True, False])

    def write_and_lose_the_connection(self, cursor):
        write(self, cursor)
        if next(kills):
            with psycopg.connect(database.superuser_url, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(%s)", (cursor.connection.info.backend_pid,))

    monkeypatch.setattr(decision_counts.DecisionCounts, "write", write_and_lose_the_connection)
    journal.write(auth(alpha), auth(alpha, permitted=False))
    with pytest.raises(Exception, match=r"terminat|clos|not respond|lost"):
        journal.auth.step()
    assert totals(owner) == (0, 0, 0)
    drain(journal.auth)
    assert totals(owner) == (2, 2, 2)


def test_split_batch_and_replayed_records_count_once(owner, alpha, journal, database, platform):
    """PostgreSQL rejects one record. The shipper halves the batch, and a replay later ships the record."""
    owner.execute("ALTER TABLE auth_log ADD CONSTRAINT of_test CHECK (vlan <> '666')")
    journal.ship(*(auth(alpha, at=AT + n, vlan="666" if n == 3 else "20") for n in range(8)))
    assert totals(owner) == (7, 7, 7)
    owner.execute("ALTER TABLE auth_log DROP CONSTRAINT of_test")
    stream = AuthStream()
    engine = shipping_engine(database.cell_url, stream)
    assert replay(stream, cell_id=platform.cell_id, engine=engine).shipped == 1
    engine.dispose()
    assert totals(owner) == (8, 8, 8)


def test_counts_equal_the_log_for_random_batches(owner, alpha, make, journal):
    dice, tenants = random.Random(7), [alpha, make("bravo")]
    for _ in range(10):
        journal.ship(
            *(
                auth(dice.choice(tenants), at=AT + dice.randrange(3 * HOUR), permitted=dice.random() < 0.7)
                for _ in range(dice.randrange(1, 60))
            )
        )
    for seconds, unit in ((60, "minute"), (3600, "hour")):
        logged = owner.execute(
            "SELECT tenant_id, date_trunc(%s, at), count(*) FILTER (WHERE permitted),"
            " count(*) FILTER (WHERE NOT permitted) FROM auth_log GROUP BY 1, 2",
            (unit,),
        ).fetchall()
        counted = owner.execute(
            "SELECT tenant_id, start_at, permitted, rejected FROM decision_counts WHERE seconds = %s", (seconds,)
        ).fetchall()
        assert sorted(counted) == sorted(logged)
    assert sum(row[3] for row in counts(owner)) == sum(row[2] for row in rejects(owner))


@pytest.fixture
def nas(owner, alpha):
    owner.execute(
        "INSERT INTO nases (id, tenant_id, site_id, name, identifier) "
        "SELECT %s, tenant_id, id, 'switch-1', 'switch-1' FROM sites WHERE tenant_id = %s",
        (NAS, alpha.id),
    )
    return NAS


def nas_time(owner):
    row = owner.execute("SELECT (extract(epoch FROM last_seen_at) * 1000000)::bigint FROM nas_sightings").fetchone()
    return row[0] - AT if row else None


def test_time_of_a_nas_is_written_once_a_minute(owner, alpha, journal, nas):
    journal.ship(auth(alpha, nas_id=nas))
    assert nas_time(owner) == 0
    journal.ship(auth(alpha, nas_id=nas, at=AT + MINUTE - 1))
    assert nas_time(owner) == 0
    journal.ship(auth(alpha, nas_id=nas, at=AT + MINUTE))
    assert nas_time(owner) == MINUTE
    # A late batch of another agent does not move the time back.
    late = journal.shipper(AuthStream())
    journal.write(auth(alpha, nas_id=nas, at=AT + 1))
    drain(late)
    late.close()
    assert nas_time(owner) == MINUTE


def test_accounting_counts_as_a_request_of_the_nas(owner, alpha, journal, nas):
    journal.ship(msgspec.structs.replace(accounting(alpha, "Start"), nas_id=nas))
    assert nas_time(owner) == 0


def test_deleted_and_unregistered_nases_are_not_stored(owner, alpha, journal, nas):
    journal.ship(auth(alpha), auth(alpha, nas_id="00000000-0000-4000-8000-00000000000b"))
    assert nas_time(owner) is None
    journal.ship(auth(alpha, nas_id=nas))
    owner.execute("DELETE FROM nases")
    assert nas_time(owner) is None
