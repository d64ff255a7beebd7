"""Who is delivered when: no feed waits for another one's receiver, and each is delivered by one alone."""

import asyncio
import threading
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.events import authentication
from nac.feeds import service, turns
from nac.feeds.delivering import Ways, deliver
from nac.feeds.webhook_sender import WebhookSender
from tests.factories.certificates import SEALER
from tests.feeds.conftest import LOOPBACK, Tenancy, webhook
from tests.feeds.webhook_receiver import LOCALHOST, WebhookReceiver, status
from tests.outbound.listening import listening
from tests.waiting import until

KINDS = ("authentication",)


@pytest.fixture
def receiver(tmp_path):
    with WebhookReceiver(tmp_path).listening() as receiver:
        yield receiver


def to(receiver_port: int, **given: float):
    return webhook(receiver_port, LOCALHOST.certificate, kinds=KINDS, **given)


def serve(tenancy: Tenancy, *, seconds: float = 30) -> None:
    """As the worker's job."""
    ways = Ways(LOOPBACK, lambda: SEALER, engine=tenancy.worker)
    with session_scope(PlatformScope(), engine=tenancy.worker) as session:
        asyncio.run(turns.serve(session, partial(deliver, ways=ways, seconds=5), seconds=seconds))


def test_feeds_of_all_tenants_get_their_own_rows_alone(acme: Tenancy, other: Tenancy, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with (
        WebhookReceiver(folders[0]).listening() as of_acme,
        WebhookReceiver(folders[1]).listening() as of_other,
    ):
        acme.add(settings=to(of_acme.port))
        other.add(settings=to(of_other.port))
        for number in range(30):
            acme.log(f"acme {number}")
            other.log(f"other {number}")
        serve(acme)
    assert of_acme.names == [f"acme {number}" for number in range(30)]
    assert of_other.names == [f"other {number}" for number in range(30)]
    assert {event["organization"]["name"] for event in of_acme.taken} == {"acme-office"}
    assert {event["organization"]["name"] for event in of_other.taken} == {"other"}


def test_receivers_that_are_silent_hold_up_nobody(acme: Tenancy, other: Tenancy, receiver: WebhookReceiver):
    """More of them than there are places for those that fail; only at first they take any of the others'."""
    with listening() as silent:
        for number in range(12):
            acme.add(f"silent-{number}", to(silent.getsockname()[1], timeout_seconds=3.0))
        other.add(settings=to(receiver.port))
        acme.log("a")
        other.log("b")
        with psycopg.connect(acme.owner_url) as connection:
            connection.execute("UPDATE feeds SET failing_since = now(), attempts = 3 WHERE slug LIKE 'silent-%'")
        turn = threading.Thread(target=serve, args=(acme,))
        turn.start()
        try:
            until(lambda: receiver.names == ["b"], "the other feed is delivered")
            # The silent ones are still waited for.
            assert {acme.feed(f"silent-{number}").attempts for number in range(12)} == {3}
        finally:
            turn.join(30)
    assert receiver.names == ["b"]
    assert other.state() == "ok"
    assert {acme.state(f"silent-{number}") for number in range(12)} == {"failing"}


def test_feed_that_another_worker_delivers_is_left_alone(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=to(receiver.port))
    acme.log("a")
    with session_scope(PlatformScope(), engine=acme.worker) as session:
        assert turns._Serving(session, None)._take(turns.due(session)[0])
        serve(acme)
        assert receiver.requests == []
    serve(acme)
    assert receiver.names == ["a"]


def test_one_turn_at_a_time_on_a_machine(acme: Tenancy):
    with (
        session_scope(PlatformScope(), engine=acme.worker) as first,
        session_scope(PlatformScope(), engine=acme.worker) as second,
    ):
        assert turns.take_turn(first, "a")
        assert not turns.take_turn(second, "a")
        assert turns.take_turn(second, "b")


def test_what_comes_during_a_turn_is_sent_in_it(acme: Tenancy, receiver: WebhookReceiver):
    acme.add("first", to(receiver.port))

    def log_another(handler) -> bool:
        if len(receiver.requests) == 1:
            acme.log("later")
        return status(204)(handler)

    receiver.usual = log_another
    acme.log("a")
    serve(acme)
    assert receiver.names == ["a", "later"]


def test_feed_that_fails_for_long_is_told_of_once_and_so_is_its_recovery(
    acme: Tenancy, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
):
    acme.add(settings=to(receiver.port))
    acme.log("a")
    receiver.usual = status(500)
    now = utc_now()
    for minutes in (0, 10, 16, 30):
        acme.deliver(clock=lambda minutes=minutes: now + timedelta(minutes=minutes))
    assert audited(acme) == ["feed.add", "feed.failing"]
    assert "feed siem of tenant" in caplog.text
    receiver.usual = status(204)
    acme.deliver()
    acme.log("b")
    acme.deliver()
    assert audited(acme) == ["feed.add", "feed.failing", "feed.recovered"]


def audited(tenancy: Tenancy) -> list[str]:
    with psycopg.connect(tenancy.owner_url) as connection:
        found = connection.execute(
            "SELECT action FROM audit_log WHERE tenant_id = %s AND action LIKE 'feed.%%' ORDER BY id", [tenancy.id]
        )
        return [action for (action,) in found]


def test_paused_feed_is_not_due_and_goes_on_where_it_stood(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=to(receiver.port))
    acme.do(service.pause, because="maintenance")
    acme.log("a")
    serve(acme)
    assert receiver.requests == []
    acme.do(service.resume, now=utc_now())
    serve(acme)
    assert receiver.names == ["a"]


def test_pause_while_it_is_delivered_ends_the_turn(acme: Tenancy, receiver: WebhookReceiver):
    acme.add(settings=to(receiver.port))
    acme.log(*map(str, range(300)))

    def pause(handler) -> bool:
        acme.do(service.pause)
        return status(204)(handler)

    receiver.answers = [pause]
    acme.deliver()
    assert len(receiver.requests) == 1
    assert acme.state() == "paused"


def test_error_of_our_own_is_shown_and_tried_again_later(
    acme: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    acme.add(settings=to(receiver.port))
    acme.log("a")
    with monkeypatch.context() as broken:
        broken.setattr(WebhookSender, "body", lambda sender, events: 1 // 0)
        acme.deliver()
    assert acme.state() == "failing"
    assert "error of Admit's" in acme.feed().failure
    assert "ZeroDivisionError" in caplog.text
    acme.deliver()
    assert receiver.names == ["a"]


def test_row_that_makes_no_event_is_counted_and_stops_nothing(
    acme: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
):
    def strange(row, *, tenant):
        if row.identity == "b":
            raise ValueError("strange")
        return whole(row, tenant=tenant)

    whole = authentication.from_log
    monkeypatch.setattr(authentication, "from_log", strange)
    acme.add(settings=to(receiver.port))
    acme.log("a", "b", "c")
    acme.deliver()
    assert receiver.names == ["a", "c"]
    assert (acme.feed().delivered, acme.feed().lost) == (2, 1)
