"""The order of deliveries: no feed waits for another feed's receiver, and one worker delivers each feed."""

import asyncio
import socket
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.logs.events import authentication
from nac.logs.feeds import delivery_turns, service
from nac.logs.feeds.delivery import DeliveryContext, deliver_feed
from nac.logs.feeds.settings import WebhookSettings
from nac.logs.feeds.webhook_sender import WebhookSender
from tests.factories.certificates import SEALER
from tests.feeds.conftest import LOOPBACK, Tenancy, webhook
from tests.feeds.webhook_receiver import WebhookReceiver, status
from tests.outbound.listener import listening
from tests.polling import until


def serve(tenancy: Tenancy, *, seconds: float = 30) -> None:
    """Deliver as the worker's job does."""
    ways = DeliveryContext(LOOPBACK, lambda: SEALER, engine=tenancy.worker)
    with session_scope(PlatformScope(), engine=tenancy.worker) as session:
        asyncio.run(delivery_turns.deliver_due(session, partial(deliver_feed, ways=ways, seconds=5), seconds=seconds))


def deliver_due(tenancy: Tenancy, deliver: delivery_turns.DeliverFeed) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await delivery_turns.deliver_due(session, deliver, seconds=30)

    with session_scope(PlatformScope(), engine=tenancy.worker) as session:
        asyncio.run(run())


def test_feeds_get_only_their_own_tenants_rows(
    acme: Tenancy, other: Tenancy, receiver: WebhookReceiver, tmp_path: Path
):
    folder = tmp_path / "other"
    folder.mkdir()
    with WebhookReceiver(folder).listening() as of_other:
        acme.add(settings=webhook(receiver.port))
        other.add(settings=webhook(of_other.port))
        for number in range(30):
            acme.log(f"acme {number}")
            other.log(f"other {number}")
        serve(acme)
    for each, tenant, prefix in ((receiver, "acme-office", "acme"), (of_other, "other", "other")):
        sent = [(event["organization"]["name"], event["user"]["name"]) for event in each.taken]
        assert sent == [(tenant, f"{prefix} {number}") for number in range(30)]


def test_silent_receivers_delay_no_others(acme: Tenancy, other: Tenancy, receiver: WebhookReceiver):
    """There are more silent receivers than slots for failing feeds. They use other slots only at first."""
    with listening() as silent:
        for number in range(12):
            acme.add(f"silent-{number}", webhook(silent.getsockname()[1], timeout_seconds=1.0))
        other.add(settings=webhook(receiver.port))
        acme.log("a")
        other.log("b")
        acme.sql("UPDATE feeds SET failing_since = now(), attempts = 3 WHERE slug LIKE 'silent-%'")
        turn = threading.Thread(target=serve, args=(acme,))
        turn.start()
        try:
            until(lambda: receiver.names == ["b"], "the other feed is delivered")
            # The worker still waits for the silent receivers.
            assert 3 in {acme.feed(f"silent-{number}").attempts for number in range(12)}
        finally:
            turn.join(30)
    assert receiver.names == ["b"]
    assert other.state() == "ok"
    assert {acme.state(f"silent-{number}") for number in range(12)} == {"failing"}


def test_tenant_with_many_slow_receivers_leaves_slots_free(acme: Tenancy, other: Tenancy):
    """The receivers have not failed yet, so their feeds use the regular slots."""
    places: list[int] = []

    async def deliver(tenant_id: TenantId, feed_id: UUID) -> bool:
        if tenant_id == acme.id:
            running.append(feed_id)
            places.append(len(running))
            await reached.wait()
            running.remove(feed_id)
        else:
            reached.set()
        acme.sql("UPDATE feeds SET status = 'paused' WHERE id = %s", feed_id)
        return False

    for number in range(20):
        acme.add(f"slow-{number:02}", webhook(1))
    acme.log("a")
    other.add(settings=webhook(1))
    other.log("b")
    running: list[UUID] = []
    reached = asyncio.Event()
    deliver_due(acme, deliver)
    assert len(places) == 20
    assert max(places) == 4


def test_slow_receiver_releases_its_slot(acme: Tenancy, other: Tenancy, monkeypatch: pytest.MonkeyPatch):
    """The receiver accepts every event, but slowly."""
    for name, value in (("_SLOW_SECONDS", 0.05), ("_LIMITS", delivery_turns.ConcurrencyLimits(1, 1))):
        monkeypatch.setattr(delivery_turns, name, value)
    acme.add("slow", webhook(1))
    other.add(settings=webhook(1))
    acme.log("a")
    other.log("b")
    acme.sql("UPDATE feeds SET attempted_at = now() WHERE id = %s", other.feed().id)
    slow, reached = acme.feed("slow").id, asyncio.Event()
    stretches: list[UUID] = []

    async def deliver(tenant_id: TenantId, feed_id: UUID) -> bool:
        stretches.append(feed_id)
        if feed_id != slow:
            reached.set()
        elif len(stretches) > 1:
            await reached.wait()
        else:
            await asyncio.sleep(0.1)
        return not reached.is_set()

    deliver_due(acme, deliver)
    assert stretches[:3] == [slow, slow, other.feed().id]


def test_unanswered_dns_lookups_delay_no_others(
    acme: Tenancy, other: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
):
    is_over, found = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *given, **more):
        if str(host).endswith(".dead.example") and not more.get("flags"):
            is_over.wait(30)
        return found(host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    # As many lookups as asyncio has threads for its own lookups.
    for number in range(8):
        url = f"https://{number}.dead.example/"
        acme.add(f"dead-{number}", WebhookSettings(url=url, kinds=("authentication",), timeout_seconds=1.0))
    other.add(settings=webhook(receiver.port))
    acme.log("a")
    other.log("b")
    try:
        serve(acme, seconds=1)
        assert receiver.names == ["b"]
        assert other.state() == "ok"
        assert "failing" in {acme.state(f"dead-{number}") for number in range(8)}
    finally:
        is_over.set()


def test_unreadable_table_of_one_feed_delays_no_others(acme: Tenancy, other: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=webhook(receiver.port, kinds=("coa",)))
    other.add(settings=webhook(receiver.port))
    other.log("b")
    acme.sql(
        "INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row)"
        " VALUES (%s, 'coa_requests', now(), now(), 1, 1)",
        acme.id,
    )
    with psycopg.connect(acme.owner_url) as blocking:
        blocking.execute("LOCK TABLE coa_requests IN ACCESS EXCLUSIVE MODE")
        turn = threading.Thread(target=serve, args=(acme,))
        turn.start()
        try:
            until(lambda: receiver.names == ["b"], "the other feed is delivered")
        finally:
            blocking.rollback()
            turn.join(30)
    assert not turn.is_alive()


def test_silent_receiver_does_not_block_the_run(acme: Tenancy, other: Tenancy):
    """This holds even when the run exceeds its time. The run then starts no failing feeds."""
    acme.add("silent", webhook(1))
    acme.add("fails", webhook(1))
    other.add(settings=webhook(1))
    acme.log("a")
    other.log("b")
    acme.sql("UPDATE feeds SET attempted_at = now(), failing_since = now() WHERE slug = 'fails'")
    begun: list[str] = []
    slugs = {acme.feed("silent").id: "silent", acme.feed("fails").id: "fails", other.feed().id: "other"}
    is_over = asyncio.Event()

    async def deliver(tenant_id: TenantId, feed_id: UUID) -> bool:
        begun.append(slugs[feed_id])
        if slugs[feed_id] == "silent":
            await is_over.wait()
            return False
        if begun.count("other") == 3:
            is_over.set()
        return not is_over.is_set()

    with session_scope(PlatformScope(), engine=acme.worker) as session:
        serving = delivery_turns._DeliveryLoop(session, deliver)

        async def run() -> None:
            await serving._begin(also_failing=False)
            await serving.run(time.monotonic())

        asyncio.run(run())
    assert begun.count("other") >= 3
    assert begun.count("silent") == 1
    assert "fails" not in begun


def test_feed_locked_by_another_worker_is_skipped(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=webhook(receiver.port))
    acme.log("a")
    with session_scope(PlatformScope(), engine=acme.worker) as session:
        assert delivery_turns._DeliveryLoop(session, None)._take(delivery_turns.list_due(session)[0])
        serve(acme)
        assert receiver.requests == []
    serve(acme)
    assert receiver.names == ["a"]


def test_only_one_run_at_a_time_per_machine(acme: Tenancy):
    with (
        session_scope(PlatformScope(), engine=acme.worker) as first,
        session_scope(PlatformScope(), engine=acme.worker) as second,
    ):
        assert delivery_turns.try_lock_machine(first, "a")
        assert not delivery_turns.try_lock_machine(second, "a")
        assert delivery_turns.try_lock_machine(second, "b")


def test_rows_added_during_a_run_are_sent_in_it(acme: Tenancy, receiver: WebhookReceiver):
    acme.add("first", webhook(receiver.port))

    def log_another(handler) -> bool:
        if len(receiver.requests) == 1:
            acme.log("later")
        return status(204)(handler)

    receiver.usual = log_another
    acme.log("a")
    serve(acme)
    assert receiver.names == ["a", "later"]


def test_long_failure_and_recovery_are_logged_once_each(
    acme: Tenancy, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
):
    acme.add(settings=webhook(receiver.port))
    acme.log("a")
    receiver.usual = status(500)
    now = utc_now()
    for minutes in (0, 10, 16, 30):
        acme.deliver(clock=lambda minutes=minutes: now + timedelta(minutes=minutes))
    assert audited(acme) == ["feed.failing"]
    assert "feed siem of tenant" in caplog.text
    receiver.usual = status(204)
    acme.deliver()
    acme.log("b")
    acme.deliver()
    assert audited(acme) == ["feed.failing", "feed.recovered"]


def audited(tenancy: Tenancy) -> list[str]:
    found = tenancy.sql("SELECT action FROM audit_log WHERE action ~ '^feed.(failing|recovered)$' ORDER BY id")
    return [action for (action,) in found]


def test_paused_feed_is_not_due_and_resumes_at_its_position(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=webhook(receiver.port))
    acme.do(service.pause_feed, because="maintenance")
    acme.log("a")
    serve(acme)
    assert receiver.requests == []
    acme.do(service.resume_feed, now=utc_now())
    serve(acme)
    assert receiver.names == ["a"]


def test_pausing_during_delivery_ends_the_run(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=webhook(receiver.port))
    acme.log(*map(str, range(300)))

    def pause(handler) -> bool:
        acme.do(service.pause_feed)
        return status(204)(handler)

    receiver.answers = [pause]
    acme.deliver()
    assert len(receiver.requests) == 1
    assert acme.state() == "paused"


def test_internal_error_is_shown_and_retried_later(
    acme: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    acme.add(settings=webhook(receiver.port))
    acme.log("a")
    with monkeypatch.context() as broken:
        broken.setattr(WebhookSender, "body", lambda sender, events: 1 // 0)
        acme.deliver()
    assert acme.state() == "failing"
    assert "Internal error of Admit" in acme.feed().failure
    assert "ZeroDivisionError" in caplog.text
    acme.deliver()
    assert receiver.names == ["a"]


def test_invalid_row_is_counted_and_skipped(acme: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch):
    def strange(row, *, tenant):
        if row.identity == "b":
            raise ValueError("strange")
        return whole(row, tenant=tenant)

    whole = authentication.from_log
    monkeypatch.setattr(authentication, "from_log", strange)
    acme.add(settings=webhook(receiver.port))
    acme.log("a", "b", "c")
    acme.deliver()
    assert receiver.names == ["a", "c"]
    assert (acme.feed().delivered, acme.feed().lost) == (2, 1)
