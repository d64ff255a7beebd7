"""The events that a feed reads: every committed event, in any order, and no event of another tenant."""

import random
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

from nac.inventory.endpoints import service as endpoints
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.logs.feeds import batch_reader, delivery_turns, service
from nac.logs.feeds.batch_reader import FeedPosition
from nac.logs.feeds.progress import DeliveryStep, store_delivery
from nac.logs.feeds.service import ReplayUnderWay
from tests.feeds.conftest import Tenancy, of_kinds


def read(tenancy: Tenancy, *, most: int = 100, slug: str = "siem", batches: int = 1_000) -> list[str]:
    """Names in the next events, stored as sent."""
    names: list[str] = []
    for _ in range(batches):
        with tenancy.scope(tenancy.worker) as session:
            feed = service.require_feed(session, tenant_id=tenancy.id, slug=slug)
            batch = batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=most)
            assert len(batch.rows) <= most
            if batch.last:
                return names
            names += [row.identity if source == "auth_log" else row.action for source, row in batch.rows]
            store_delivery(session, feed, DeliveryStep(batch.position, len(batch.rows), batch.gone), now=utc_now())
    return names


@pytest.fixture
def decisions(acme: Tenancy) -> Tenancy:
    acme.add(settings=of_kinds("authentication"))
    return acme


def test_rows_from_before_the_feed_are_not_sent(acme: Tenancy):
    acme.log("before")
    acme.add(settings=of_kinds("authentication"))
    acme.log("after")
    assert read(acme) == ["after"]
    assert read(acme) == []


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_batch_size_does_not_change_the_events(decisions: Tenancy, most: int):
    decisions.log(*"abc")
    decisions.log("d")
    decisions.log(*"efghi", at=utc_now() - timedelta(hours=3))
    assert read(decisions, most=most) == list("abcdefghi")


def test_rows_with_equal_timestamps_are_sent_once_each(acme: Tenancy):
    """An import writes many rows in one transaction, and no ANALYZE follows."""
    acme.add(settings=of_kinds("endpoint"))
    acme.sql("ANALYZE event_notes")
    acme.sql(
        "INSERT INTO endpoints (tenant_id, mac, status) "
        "SELECT %s, lpad(to_hex(n), 12, '0')::macaddr, 'active' FROM generate_series(1, 2000) n",
        acme.id,
    )
    taken = 0
    with acme.scope(acme.worker) as session:
        feed = service.require_feed(session, tenant_id=acme.id, slug="siem")
        batch = batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=100)
        while not batch.last:
            taken += len(batch.rows)
            batch = batch_reader.read_batch(session, feed, batch.position, most=100)
        fetched = session.scalar(
            text("SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'event_notes'")
        )
    assert taken == fetched == 2_000


def test_late_commit_is_sent(decisions: Tenancy):
    with psycopg.connect(decisions.owner_url) as slow:
        decisions.log_in(slow, "slow")
        decisions.log("quick")
        # The slow transaction has the lower id, and its rows are not yet visible.
        assert read(decisions) == ["quick"]
        decisions.log("later")
        assert read(decisions) == ["later"]
        slow.commit()
    assert read(decisions) == ["slow"]
    assert read(decisions) == []


def test_commit_within_a_window_is_in_the_next_window(decisions: Tenancy):
    decisions.log("first")
    with psycopg.connect(decisions.owner_url) as slow:
        decisions.log_in(slow, "slow")
        decisions.log("third")
        assert read(decisions, most=1, batches=1) == ["first"]
        slow.commit()
    assert sorted(read(decisions, most=1)) == ["slow", "third"]


@pytest.mark.parametrize("seed", range(4))
def test_interleaved_transactions_are_sent_without_rollbacks(decisions: Tenancy, seed: int):
    chance = random.Random(seed)
    with psycopg.connect(decisions.owner_url) as a, psycopg.connect(decisions.owner_url) as b:
        # Names that each transaction has written and not committed.
        open_: dict[psycopg.Connection, list[str]] = {a: [], b: []}
        committed: list[str] = []
        found: list[str] = []
        for number in range(60):
            connection = chance.choice([a, b])
            match chance.choice(["write", "write", "commit", "roll back", "read"]):
                case "write":
                    names = [f"{number}-{index}" for index in range(chance.randint(1, 4))]
                    decisions.log_in(connection, *names, at=utc_now() - timedelta(minutes=chance.randint(0, 200)))
                    open_[connection] += names
                case "commit":
                    connection.commit()
                    committed += open_[connection]
                    open_[connection] = []
                case "roll back":
                    connection.rollback()
                    open_[connection] = []
                case _:
                    found += read(decisions, most=chance.randint(1, 5), batches=chance.randint(1, 4))
        for connection in (a, b):
            connection.commit()
            committed += open_[connection]
    found += read(decisions, most=3)
    assert set(found) == set(committed)
    # Ranges of interleaved transactions may overlap, so these rows may be sent twice.
    assert len(found) < 2 * len(committed)


def test_rows_of_another_tenant_are_never_read(decisions: Tenancy, other: Tenancy):
    other.add(settings=of_kinds("authentication"))
    at = utc_now()
    with psycopg.connect(decisions.owner_url) as one:
        # Two tenants write in one transaction, with overlapping ids.
        for names in ("a1", "b1"), ("a2", "b2"):
            decisions.log_in(one, names[0], at=at)
            other.log_in(one, names[1], at=at)
    assert read(decisions) == ["a1", "a2"]
    assert read(other) == ["b1", "b2"]


def test_kinds_that_no_feed_selects_write_no_marks(decisions: Tenancy, other: Tenancy):
    decisions.call(endpoints.create_endpoint, mac="00:1b:a9:00:00:01")
    other.log("b")
    assert marks(decisions) == marks(other) == 0


def marks(tenancy: Tenancy) -> int:
    [(number,)] = tenancy.sql("SELECT count(*) FROM feed_marks WHERE tenant_id = %s", tenancy.id)
    return number


def test_changes_are_sent_as_in_the_audit_log(acme: Tenancy):
    acme.add(settings=of_kinds("audit"))
    acme.call(endpoints.create_endpoint, mac="00:1b:a9:00:00:01")
    assert read(acme) == ["feed.add", "endpoint.add"]


def prune(tenancy: Tenancy) -> None:
    for step in (delivery_turns.fold_marks, delivery_turns.prune_marks):
        with session_scope(PlatformScope(), engine=tenancy.worker) as session:
            step(session)


def test_marks_are_deleted_when_every_feed_has_sent_them(decisions: Tenancy):
    decisions.add("second", of_kinds("authentication"))
    decisions.log("a")
    decisions.log("b")
    assert read(decisions) == ["a", "b"]
    prune(decisions)
    assert marks(decisions) == 2
    assert read(decisions, most=1, batches=1, slug="second") == ["a"]
    # Of a finished window, only the sent part is deleted. The next read deletes the mark itself.
    assert read(decisions, most=1, batches=2, slug="second") == ["b"]
    prune(decisions)
    assert marks(decisions) <= 1
    assert read(decisions, slug="second") == []
    prune(decisions)
    assert marks(decisions) == 0


def test_rows_unsent_for_a_week_are_dropped_and_counted(decisions: Tenancy, caplog: pytest.LogCaptureFixture):
    decisions.add("done", of_kinds("authentication"))
    decisions.log("a", "b", "c")
    assert read(decisions, slug="done") == ["a", "b", "c"]
    decisions.sql("UPDATE feed_marks SET at = now() - interval '8 days'")
    decisions.log("d")
    prune(decisions)
    assert (decisions.feed().lost, decisions.feed("done").lost) == (3, 0)
    assert "Not delivered within 7 days" in caplog.text
    told = decisions.sql("SELECT target, after->'number' FROM audit_log WHERE action = 'feed.give-up'")
    assert told == [("siem", 3)]
    assert read(decisions) == ["d"]


@pytest.mark.parametrize("most", [1, 3, 5, 100])
def test_deleted_rows_are_counted_however_marks_are_read(decisions: Tenancy, most: int):
    for number in range(4):
        decisions.log(*(f"{number}{letter}" for letter in "abcd"))
    assert read(decisions, most=3, batches=3) == ["0a", "0b", "0c", "0d", "1a", "1b", "1c"]
    # Of four marks, the first is sent, the second is partly read, the third is unread, and the fourth is the last.
    decisions.sql("DELETE FROM auth_log WHERE identity IN ('0a', '1a', '1d', '2b', '2c', '3c', '3d')")
    assert read(decisions, most=most) == ["2a", "2d", "3a", "3b"]
    assert decisions.feed().lost == 5


def examined_marks(tenancy: Tenancy, slug: str) -> int:
    """The number of marks that a read examines to detect that nothing is due and nothing remains to be read."""
    counted = text("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'feed_marks'")
    with tenancy.scope(tenancy.worker) as session:
        feed = service.require_feed(session, tenant_id=tenancy.id, slug=slug)
        before = session.scalar(counted)
        assert feed.id not in {each.id for each in delivery_turns.list_due(session)}
        assert batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=10).last
        return session.scalar(counted) - before


def test_feed_without_kinds_reads_no_marks_of_other_feeds(decisions: Tenancy):
    """Another feed of the tenant may be far behind."""
    decisions.add("changes", of_kinds("coa"))
    decisions.sql(
        "INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)"
        " SELECT %s, 'auth_log', now(), now(), n, n, 1 FROM generate_series(1, 5000) n",
        decisions.id,
    )
    decisions.sql("ANALYZE feed_marks")
    # The one mark is read to check whether the other feed is due.
    assert examined_marks(decisions, "changes") <= 2


def test_idle_feed_is_at_the_newest_position(decisions: Tenancy):
    decisions.add("changes", of_kinds("coa"))
    decisions.log("a")
    before = decisions.feed().done, decisions.feed("changes").done
    prune(decisions)
    assert decisions.feed().done == before[0]
    assert decisions.feed("changes").done != before[1]
    with psycopg.connect(decisions.owner_url) as slow:
        decisions.log_in(slow, "slow")
        assert read(decisions) == ["a"]
        prune(decisions)
    assert read(decisions) == ["slow"]


def fold(tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch, *, most: int) -> None:
    monkeypatch.setattr(delivery_turns, "_MAX_MARKS", most)
    prune(tenancy)


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.long), 100])
def test_old_marks_are_folded_by_hour_and_still_sent(decisions: Tenancy, monkeypatch: pytest.MonkeyPatch, most: int):
    decisions.add("done", of_kinds("authentication"))
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    names = [str(number) for number in range(60)]
    for number, name in enumerate(names):
        decisions.log(name, at=hour - timedelta(minutes=120 - 2 * number))
    assert read(decisions, slug="done", most=most) == names
    sent = read(decisions, most=7, batches=2)
    fold(decisions, monkeypatch, most=50)
    assert marks(decisions) >= 46
    fold(decisions, monkeypatch, most=20)
    assert marks(decisions) == 2
    assert read(decisions, slug="done") == []
    decisions.log("later")
    found = read(decisions, most=most)
    # Folded marks are sent in approximate order. Some rows of the mark in progress are sent again.
    assert found[-1] == "later"
    assert {*names[len(sent) :], "later"} <= set(found)
    assert (decisions.feed().lost, read(decisions)) == (0, [])
    assert read(decisions, slug="done") == ["later"]


def test_rows_sent_while_marks_are_folded_are_not_skipped(decisions: Tenancy, monkeypatch: pytest.MonkeyPatch):
    """A worker stores a position from before the folding.

    The window and marks of this position do not exist any more.
    """
    for number in range(30):
        decisions.log(str(number))
    with decisions.scope(decisions.worker) as session:
        feed = decisions.feed()
        batch = batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=5)
        with psycopg.connect(decisions.owner_url) as late:
            decisions.log_in(late, "late")
            fold(decisions, monkeypatch, most=10)
        store_delivery(session, feed, DeliveryStep(batch.position, 5), now=utc_now())
    assert {*map(str, range(5, 30)), "late"} <= set(read(decisions, most=4))


def test_only_one_replay_runs_at_a_time(decisions: Tenancy):
    decisions.replay(since=timedelta(days=2))
    with pytest.raises(ReplayUnderWay):
        decisions.replay(since=timedelta(days=2))
    read(decisions)
    decisions.replay(since=timedelta(days=2))


def test_replay_sends_old_events_of_its_feed_after_new_ones(decisions: Tenancy):
    start = utc_now()
    decisions.log("long ago", at=start - timedelta(days=5))
    decisions.log("two days ago", at=start - timedelta(days=2))
    decisions.log("now", at=start)
    assert read(decisions) == ["long ago", "two days ago", "now"]
    decisions.add("second", of_kinds("authentication"))
    decisions.log("new", at=start)
    for slug in ("siem", "second"):
        decisions.replay(slug, since=timedelta(days=3))
        # The replay of a feed includes the time before the feed.
        assert read(decisions, slug=slug, most=1) == ["new", "two days ago", "now", "new"]
    assert read(decisions) == []


def test_coa_request_is_sent_once_it_has_ended(acme: Tenancy):
    acme.add(settings=of_kinds("coa"))
    acme.sql(
        "INSERT INTO coa_requests (tenant_id, session_row, session_id, reason, state)"
        " VALUES (%s, 1, 's', 'requested', 'queued')",
        acme.id,
    )
    acme.sql("UPDATE coa_requests SET state = 'sending'")
    assert marks(acme) == 0
    acme.sql("UPDATE coa_requests SET state = 'acknowledged', ended_at = now()")
    with acme.scope(acme.worker) as session:
        feed = acme.feed()
        [(source, row)] = batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=10).rows
    assert (source, row.state) == ("coa_requests", "acknowledged")


@pytest.mark.parametrize("waiting", [["waiting"], []])
def test_database_restored_from_a_dump_skips_nothing(decisions: Tenancy, waiting: list[str]):
    decisions.log("sent")
    assert read(decisions) == ["sent"]
    prune(decisions)
    decisions.log(*waiting)
    # In the restored database, transaction ids start from the beginning.
    decisions.sql("UPDATE feeds SET done = '900000000:900000000:'")
    decisions.sql("UPDATE feed_marks SET xact = '900000001' WHERE id = (SELECT max(id) FROM feed_marks)")
    decisions.log("new")
    prune(decisions)
    assert set(read(decisions)) == {*waiting, "new"}
    prune(decisions)
    assert read(decisions) == []
