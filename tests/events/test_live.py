"""Listeners receive the records that a real shipper stores in PostgreSQL, over a real Redis.

They do not slow the shipper down.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import aclosing, closing, contextmanager

import pytest
import redis
from sqlalchemy import select

import nac.logs.events.live_stream
import radius.agent.shipping.live_feed
from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.logs.events import accounting as accounting_events
from nac.logs.events import authentication
from nac.logs.events.document import to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.live_stream import (
    ALL_EVENTS,
    MAX_ENTRIES,
    ListenerState,
    LiveEvent,
    StreamNotice,
    events_key,
    interest_key,
    listen,
    listen_async,
)
from nac.models import AccountingLog, AuthLog
from nac.sessions.decisions.recorded_requests import to_microseconds
from radius.agent.shipping.live_feed import MAX_WAITING
from radius.agent.shipping.live_notes import LiveNotes
from radius.agent.shipping.streams import AccountingStream, AuthStream
from tests import run_depth
from tests.agent.journal_records import AT, Journal, accounting, auth
from tests.events.conftest import feed_of
from tests.polling import until
from tests.redis_server import RedisServer
from tests.replica.reader_process import ROOT

# Shorter than in production, to save time in tests.
QUICK = {
    radius.agent.shipping.live_feed: {
        "LISTENER_POLL_SECONDS": 0.1,
        "RETRY_SECONDS": 0.1,
        "TIMEOUT_SECONDS": 0.3,
        "EVENTS_PER_SECOND": 20_000,
    },
    nac.logs.events.live_stream: {
        "INTEREST_SECONDS": 3,
        "SILENT_SECONDS": 2.0,
        "_BLOCK_SECONDS": 0.1,
        "_RETRY_SECONDS": 0.1,
        "_TIMEOUT_SECONDS": 0.5,
    },
}
DEAD_URL = "unix:///nonexistent/redis.sock"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for module, values in QUICK.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="module")
def redis_server():
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_redis():
    """A separate Redis that the test may stop."""
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def client(redis_server):
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@contextmanager
def running(feed):
    stop = threading.Event()
    thread = threading.Thread(target=feed.run, args=(stop,))
    thread.start()
    try:
        yield feed
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def shipping(tmp_path, database, platform):
    """Function that runs a feed for tenants, and opens a journal whose shipper uses the feed."""

    @contextmanager
    def ship(server, *tenants):
        with running(feed_of(server.url, *tenants)) as feed:
            journal = Journal(tmp_path / "journal", database, platform.cell_id)
            journal.auth, journal.acct = journal.shipper(AuthStream(feed)), journal.shipper(AccountingStream(live=feed))
            with closing(journal):
                yield feed, journal

    return ship


class Listener:
    """Runs `listen` in a thread and stores the received events."""

    def __init__(self, url, *tenants, wanted=ALL_EVENTS):
        self.heard = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(url, [tenant.id for tenant in tenants], wanted))

    def _run(self, url, tenants, wanted):
        for each in listen(url, tenants, wanted):
            if each is not None:
                self.heard.append(each)
            if self._ended.is_set():
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def events(self):
        return [each.event for each in self.heard if isinstance(each, LiveEvent)]

    @property
    def notices(self):
        return [each for each in self.heard if isinstance(each, StreamNotice)]

    @property
    def missed_counts(self):
        return sum(notice.count or 0 for notice in self.notices if notice.kind == "left-out")

    def wait(self, kind):
        until(lambda: kind in [notice.kind for notice in self.notices], f"{kind} in {self.notices}")

    def wait_events(self, number):
        until(lambda: len(self.events) >= number, f"{number} events, {len(self.events)} came")


@contextmanager
def listening(feed, server, *tenants):
    with Listener(server.url, *tenants) as listener:
        listener.wait("listening")
        until(lambda: len(feed.wanted) >= len(tenants), "the agent knows that somebody listens")
        yield listener


def stored(engine, tenant_id, model):
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return session.scalars(select(model).where(model.tenant_id == tenant_id)).all()


def test_received_events_match_the_log_in_order(app_engine, shipping, alpha, redis_server):
    tenant = EventTenant(str(alpha.id), "alpha")
    with shipping(redis_server, alpha) as (feed, journal), listening(feed, redis_server, alpha) as listener:
        journal.ship(*(auth(alpha, at=AT + n, identity=f"anna-{n}\0") for n in range(120)))
        journal.ship(accounting(alpha, "Start"), accounting(alpha, "Stop", at=AT + 1, seconds=60))
        # The record is so large that its row is truncated.
        journal.ship(auth(alpha, at=AT + 500, detail="d" * 40_000))
        listener.wait_events(123)
    logged = [authentication.from_log(row, tenant=tenant) for row in stored(app_engine, alpha.id, AuthLog)]
    logged += [accounting_events.from_log(row, tenant=tenant) for row in stored(app_engine, alpha.id, AccountingLog)]
    assert {to_json(event) for event in listener.events} == {to_json(event) for event in logged}
    assert [event.user.name for event in listener.events[:120]] == [f"anna-{n}" for n in range(120)]
    assert [event.event.action for event in listener.events[120:122]] == ["session-started", "session-ended"]
    assert listener.missed_counts == 0


def test_tenant_receives_no_events_of_another(shipping, alpha, bravo, redis_server):
    with (
        shipping(redis_server, alpha, bravo) as (feed, journal),
        listening(feed, redis_server, alpha) as one,
        listening(feed, redis_server, alpha, bravo) as both,
    ):
        journal.ship(auth(bravo, identity="b"), auth(alpha, identity="a"), accounting(bravo, "Start"))
        both.wait_events(3)
        journal.ship(auth(alpha, identity="last", at=AT + 1))
        one.wait_events(2)
    assert [event.user.name for event in one.events] == ["a", "last"]
    assert {event.organization.name for event in one.events} == {"alpha"}
    assert {heard.tenant_id for heard in both.heard if isinstance(heard, LiveEvent)} == {alpha.id, bravo.id}


def test_without_listeners_no_ids_or_entries_are_used(shipping, alpha, redis_server, client):
    with shipping(redis_server, alpha) as (feed, journal):
        until(lambda: feed._ask_at > feed._answered_at, "Redis was asked")
        journal.ship(*(auth(alpha, at=AT + n) for n in range(10)))
        assert not feed._waiting
    assert not client.exists(events_key(alpha.id))


def limit_memory(server, octets):
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", octets)


FAILURES = {
    "refusing": (lambda server: limit_memory(server, 1), lambda server: limit_memory(server, 0)),
    "stopped": (RedisServer.stop, RedisServer.start),
    "hung": (lambda server: os.kill(server.pid, signal.SIGSTOP), lambda server: os.kill(server.pid, signal.SIGCONT)),
}


@pytest.mark.parametrize("state", FAILURES)
def test_shipping_continues_without_redis(state, shipping, alpha, owner, own_redis):
    fail, mend = FAILURES[state]
    with shipping(own_redis, alpha) as (feed, journal), listening(feed, own_redis, alpha) as listener:
        fail(own_redis)
        journal.ship(*(auth(alpha, at=AT + n) for n in range(2 * MAX_WAITING)))
        assert owner.execute("SELECT count(*) FROM auth_log").fetchone() == (2 * MAX_WAITING,)
        assert len(feed._waiting) <= MAX_WAITING
        until(lambda: feed.counters["failures"], "the feed has noticed")
        listener.wait("lost")
        mend(own_redis)
        listener.wait("back")
        until(lambda: feed.wanted and not feed._waiting and not feed._unsent, "all is sent")
        journal.ship(auth(alpha, at=AT - 1, identity="afterwards"))
        until(lambda: "afterwards" in [event.user.name for event in listener.events if event.user], "it goes on")
    # If the number of missing events is unknown, the listener gets at least a notice of the gap.
    uncounted = any(notice.kind == "left-out" and notice.count is None for notice in listener.notices)
    assert uncounted or len(listener.events) + listener.missed_counts == 2 * MAX_WAITING + 1


def test_redis_that_rejects_writes_is_logged_once(alpha, own_redis, caplog):
    with redis.Redis.from_url(own_redis.url) as client, running(feed_of(own_redis.url, alpha)) as feed:
        client.set(interest_key(alpha.id), "1")
        until(lambda: feed.counters["entries"], "the agent knows that somebody listens")
        limit_memory(own_redis, 1)
        with caplog.at_level("INFO", logger="radius.agent.shipping.live_feed"):
            until(lambda: feed.counters["failures"] > 5, "it was tried several times")
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            limit_memory(own_redis, 0)
            until(lambda: len(caplog.records) == 2, "it goes on")
    assert "live events resume" in caplog.messages[1]


def test_unwritable_key_does_not_block_others(shipping, alpha, bravo, redis_server, client, caplog):
    """The key contains another type, or an ACL forbids writing it."""
    client.set(events_key(alpha.id), "no stream")
    client.set(interest_key(alpha.id), "1")
    with shipping(redis_server, alpha, bravo) as (feed, journal), listening(feed, redis_server, bravo) as listener:
        until(lambda: len(feed.wanted) == 2, "both are listened to")
        for number in range(3):
            journal.ship(auth(alpha, at=AT + number), auth(bravo, at=AT + number, identity=f"b{number}"))
            listener.wait_events(number + 1)
        until(lambda: feed.counters["failures"] > 5, "it was tried several times")
        until(lambda: feed.counters["left_out"] == 3, "the events of the refused stream are counted")
        client.delete(events_key(alpha.id))
        until(lambda: client.exists(events_key(alpha.id)), "it goes on")
        client.delete(events_key(alpha.id), interest_key(alpha.id))
    logged = [record.levelname for record in caplog.records if record.name == "radius.agent.shipping.live_feed"]
    assert logged == ["WARNING"]
    assert listener.missed_counts == 0


def test_notes_by_others_are_received_while_listening(app_engine, cell_engine, platform, alpha, bravo, redis_server):
    def add(tenant, mac):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            endpoints.create_endpoint(session, actor="test", tenant_id=tenant.id, mac=mac)

    with running(feed_of(redis_server.url, alpha)) as feed:
        told = LiveNotes(cell_engine, platform.cell_id, feed)
        add(alpha, "00:1b:a9:00:00:01")
        told.look()
        with Listener(redis_server.url, alpha) as listener:
            listener.wait("listening")
            told.look()
            add(alpha, "00:1b:a9:00:00:02")
            add(bravo, "00:1b:a9:00:00:03")
            told.look()
            told.look()
            add(alpha, "00:1b:a9:00:00:04")
            told.look()
            listener.wait_events(2)
    assert [(event.event.action, event.client.mac) for event in listener.events] == [
        ("endpoint-created", "00-1B-A9-00-00-02"),
        ("endpoint-created", "00-1B-A9-00-00-04"),
    ]
    assert {event.organization.name for event in listener.events} == {"alpha"}


def test_notes_of_one_tenant_are_limited_and_counted(
    app_engine, cell_engine, owner, platform, alpha, bravo, monkeypatch
):
    monkeypatch.setattr("radius.agent.shipping.live_notes.MAX_NOTES", 10)
    feed = feed_of(DEAD_URL, alpha, bravo)
    feed.wanted = frozenset([str(alpha.id), str(bravo.id)])
    notes = LiveNotes(cell_engine, platform.cell_id, feed)
    notes.look()
    add = (
        "INSERT INTO endpoints (tenant_id, mac, status) "
        "SELECT %s, lpad(to_hex(n), 12, '0')::macaddr, 'active' FROM generate_series(1, %s) n"
    )
    owner.execute(add, (bravo.id, 2))
    owner.execute(add, (alpha.id, 30))
    notes.look()
    notes.look()
    told = Counter(each.item.tenant_id for each in feed._waiting)
    assert told == {str(alpha.id): 5, str(bravo.id): 2}
    # The newest events, after the dropped events.
    assert [each.number for each in feed._waiting if each.item.tenant_id == str(alpha.id)] == list(range(25, 30))
    assert feed.counters["left_out"] == 25


def test_slow_listener_gets_the_number_of_missed_events(shipping, alpha, redis_server, client):
    with shipping(redis_server, alpha) as (feed, journal):
        slow = listen(redis_server.url, [alpha.id])
        until(lambda: StreamNotice("listening", alpha.id) in [next(slow) for _ in range(3)], "the slow one listens")
        until(lambda: feed.wanted, "the agent knows that somebody listens")
        # Another listener, which reads its events.
        client.set(interest_key(alpha.id), "1", ex=60)
        # Each batch has at least one entry.
        for batch in range(MAX_ENTRIES + 10):
            journal.ship(auth(alpha, at=AT + batch, identity=f"{batch}"))
            until(lambda: not feed._waiting and not feed._unsent, "all is sent")
        assert client.xlen(events_key(alpha.id)) <= MAX_ENTRIES
        heard = []

        def last_event_is_received():
            heard.append(next(slow))
            return isinstance(heard[-1], LiveEvent) and heard[-1].event.user.name == f"{MAX_ENTRIES + 9}"

        with closing(slow):
            until(last_event_is_received, "the last event")
    came = sum(isinstance(each, LiveEvent) for each in heard)
    missed = sum(each.count for each in heard if isinstance(each, StreamNotice) and each.count)
    assert missed > 0
    assert came + missed == MAX_ENTRIES + 10


def test_agent_end_and_its_successor_are_published(shipping, alpha, redis_server):
    with Listener(redis_server.url, alpha) as listener:
        for _ in range(2):
            with shipping(redis_server, alpha) as (feed, journal):
                until(lambda feed=feed: feed.wanted, "the agent knows that somebody listens")
                before = len(listener.events)
                journal.ship(auth(alpha, at=AT + before))
                listener.wait_events(before + 1)
        listener.wait("silent")
    assert [notice.count for notice in listener.notices if notice.kind == "left-out"] == [None]


def test_killed_shipper_publishes_each_stored_event_once(database, platform, journal, alpha, app_engine, redis_server):
    dice = random.Random(5)
    command = [sys.executable, "-m", "tests.agent.shipping_process", database.cell_url, str(platform.cell_id)]
    command += [str(journal.directory), redis_server.url, str(alpha.id)]
    written = []

    def write():
        for _ in range(20):
            record = accounting(alpha, "Start", session=f"s{len(written)}", at=AT + len(written))
            journal.write(record)
            written.append(record)

    with Listener(redis_server.url, alpha) as listener:
        for _ in range(3 if run_depth.is_whole() else 1):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
            assert process.stdout.readline() == b"ready\n"
            before = len(listener.events)
            until(lambda before=before: write() or len(listener.events) > before, "events of the new one")
            end = time.monotonic() + dice.uniform(0, 0.2)
            while time.monotonic() < end:
                write()
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
    journal.ship()
    ids = [event.event.id for event in listener.events]
    logged = {f"accounting:{to_microseconds(row.at)}-{row.id}" for row in stored(app_engine, alpha.id, AccountingLog)}
    assert len(logged) == len(written)
    assert len(ids) == len(set(ids))
    assert set(ids) <= logged


def test_interest_expires_with_the_listener(alpha, redis_server, client):
    client.flushall()
    with running(feed_of(redis_server.url, alpha)) as feed:
        with Listener(redis_server.url, alpha):
            until(lambda: feed.wanted, "somebody listens")
        assert 0 < client.ttl(interest_key(alpha.id)) <= 10
        client.delete(interest_key(alpha.id))
        until(lambda: not feed.wanted, "nobody listens")
    assert 0 < client.ttl(events_key(alpha.id)) <= 60


def test_listener_with_expired_interest_gets_a_notice(alpha, redis_server, client):
    slow = listen(redis_server.url, [alpha.id])
    with closing(slow), running(feed_of(redis_server.url, alpha)) as feed:
        until(lambda: next(slow) == StreamNotice("listening", alpha.id), "the slow one listens")
        client.delete(interest_key(alpha.id))
        until(lambda: not feed.wanted, "nobody listens")
        with Listener(redis_server.url, alpha) as other:
            other.wait("listening")
            until(lambda: next(slow) == StreamNotice("left-out", alpha.id), "the slow one is told")
            assert [notice.kind for notice in other.notices] == ["listening"]


def test_only_the_failing_event_is_skipped(shipping, alpha, redis_server, monkeypatch):
    real = authentication.from_record

    def sometimes(record, **given):
        if record.identity == "strange":
            raise RuntimeError("no event of it")
        return real(record, **given)

    monkeypatch.setattr(authentication, "from_record", sometimes)
    with shipping(redis_server, alpha) as (feed, journal), listening(feed, redis_server, alpha) as listener:
        names = ["first", "strange", "second"]
        journal.ship(*(auth(alpha, at=AT + n, identity=name) for n, name in enumerate(names)))
        listener.wait_events(2)
        until(lambda: listener.missed_counts, "it is told")
    assert [event.user.name for event in listener.events] == ["first", "second"]
    assert listener.missed_counts == 1


def test_event_stream_receives_the_published_events(shipping, alpha, redis_server):
    async def first_event(journal, feed):
        state = ListenerState([alpha.id], ALL_EVENTS, time.monotonic())
        async with aclosing(listen_async(redis_server.url, state)) as stream:
            async for each in stream:
                if isinstance(each, StreamNotice) and each.kind == "listening":
                    await asyncio.to_thread(until, lambda: feed.wanted, "somebody listens")
                    await asyncio.to_thread(journal.ship, auth(alpha))
                if isinstance(each, LiveEvent):
                    return each
        return None

    with shipping(redis_server, alpha) as (feed, journal):
        heard = asyncio.run(first_event(journal, feed))
    assert heard.tenant_id == alpha.id
    assert json.loads(heard.line)["event"]["id"] == heard.event.event.id
