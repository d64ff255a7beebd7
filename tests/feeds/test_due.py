"""Feeds are due exactly if events wait for them. Few feeds are checked in detail."""

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from nac.logs.feeds import event_sources
from tests.postgres import Database

_EACH = "status = 'active' AND next_attempt_at <= clock_timestamp() AND (until IS NOT NULL OR feed_waits(feeds))"
_LAST = 60
SOURCES = sorted(event_sources.EVENT_SOURCES)


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection without foreign keys, rolled back at the end."""
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        yield connection
        connection.rollback()


def _snapshot(chosen: random.Random) -> str:
    oldest = chosen.randint(3, _LAST)
    end = oldest + chosen.randint(0, 20)
    running = sorted(chosen.sample(range(oldest, end), chosen.randint(0, min(3, end - oldest)))) if end > oldest else []
    return f"{running[0] if running else end}:{end}:{','.join(map(str, running))}"


@pytest.mark.parametrize("seed", range(12))
def test_due_feeds_match_those_checked_one_by_one(connection: psycopg.Connection, seed: int) -> None:
    chosen = random.Random(seed)
    tenants = [f"00000000-0000-0000-0000-0000000000{number:02x}" for number in range(12)]
    feeds = []
    for number in range(60):
        feed = f"00000000-0000-0000-0001-0000000000{number:02x}"
        tenant = chosen.choice(tenants)
        feeds.append((feed, tenant))
        connection.execute(
            "INSERT INTO feeds (id, tenant_id, slug, kind, settings, sources, done, until, status, next_attempt_at)"
            " VALUES (%s, %s, %s, 'syslog', '{}', %s, %s, %s, %s, now() + make_interval(secs => %s))",
            (
                *(feed, tenant, f"feed-{number}"),
                chosen.sample(SOURCES, chosen.randint(1, len(SOURCES))),
                _snapshot(chosen),
                chosen.choice([None] * 9 + ["9:9:"]),
                chosen.choice(["active"] * 4 + ["paused"]),
                chosen.choice([-60] * 4 + [60]),
            ),
        )
    for _ in range(chosen.randint(0, 80)):
        feed, tenant = chosen.choice(feeds)
        connection.execute(
            "INSERT INTO feed_marks (tenant_id, feed_id, xact, source, first_at, last_at, first_row, last_row)"
            " VALUES (%s, %s, %s::text::xid8, %s, now(), now(), 1, 1)",
            (tenant, chosen.choice([None] * 3 + [feed]), chosen.randint(3, _LAST + 20), chosen.choice(SOURCES)),
        )
    due = connection.execute("SELECT id, tenant_id, failing FROM feeds_due()").fetchall()
    asked = connection.execute(f"SELECT id, tenant_id, failing_since IS NOT NULL FROM feeds WHERE {_EACH}").fetchall()
    assert sorted(due) == sorted(asked)


def test_feeds_that_are_up_to_date_are_not_checked_in_detail(connection: psycopg.Connection) -> None:
    connection.execute("SET LOCAL track_functions = 'all'")
    connection.execute(
        "INSERT INTO feeds (id, tenant_id, slug, kind, settings, sources, done)"
        " SELECT gen_random_uuid(), md5((n %% 25)::text)::uuid, 'feed-' || n, 'syslog', '{}', %s, '50:50:'"
        " FROM generate_series(1, 500) n",
        (SOURCES,),
    )
    mark = (
        "INSERT INTO feed_marks (tenant_id, xact, source, first_at, last_at, first_row, last_row)"
        " SELECT md5((n %% 25)::text)::uuid, %s::text::xid8, %s, now(), now(), 1, 1 FROM generate_series(1, %s) n"
    )
    connection.execute(mark, (40, SOURCES[0], 500))
    assert _count_checked(connection) == (0, 0)
    connection.execute(mark, (50, SOURCES[0], 1))
    assert _count_checked(connection) == (20, 20)


def _count_checked(connection: psycopg.Connection) -> tuple[int, int]:
    """The number of due feeds, and the number of feeds checked in detail."""
    calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'feed_waits'"
    [[before]] = connection.execute(calls).fetchall()
    [[due]] = connection.execute("SELECT count(*) FROM feeds_due()").fetchall()
    [[after]] = connection.execute(calls).fetchall()
    return due, int(after - before)
