"""Webhooks: delivery, retries and rejected addresses."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.kit.clock import utc_now
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.kit.secrets import RawKey, Sealer
from nac.logs.feeds import service, webhook_sender
from nac.logs.feeds.delivery import SEARCH_AFTER_ATTEMPTS
from tests.factories.certificates import SEALER
from tests.feeds.certificates import self_signed
from tests.feeds.conftest import Tenancy, webhook
from tests.feeds.webhook_receiver import WebhookReceiver, status
from tests.polling import until


@pytest.fixture
def secret(acme: Tenancy, receiver: WebhookReceiver) -> str:
    return add(acme, receiver)


def add(tenancy: Tenancy, receiver: WebhookReceiver, slug: str = "siem", **given) -> str:
    return tenancy.add(slug, webhook(receiver.port, **given)).secret


def verify(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Verify a request as a receiver does."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}" in headers["webhook-signature"].split(" ")


def test_signature_matches_the_standard_libraries():
    """The example is from the tests of Standard Webhooks 1.0."""
    secret, message_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    signed = webhook_sender.build_signature_headers(
        [secret], message_id=message_id, at=1614265330, body=b'{"test": 2432232314}'
    )
    assert signed == {
        "webhook-id": message_id,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_secrets_are_random_and_have_the_standard_length():
    made = {webhook_sender.generate_secret() for _ in range(2)}
    assert [len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) for secret in made] == [32, 32]


def test_events_arrive_in_signed_batches(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    names = [f"user {number}" for number in range(250)]
    acme.log(*names)
    acme.deliver()
    assert receiver.names == names
    assert len(receiver.requests) == 3
    assert all(verify(secret, headers, body) for headers, body in receiver.requests)
    headers, _ = receiver.requests[0]
    assert headers["Content-Type"] == "application/json"
    assert abs(int(headers["webhook-timestamp"]) - utc_now().timestamp()) < 60
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 3
    assert (acme.feed().delivered, acme.state()) == (250, "ok")


@pytest.mark.parametrize("code", [400, 401, 404, 408, 429, 500, 503])
def test_error_status_is_retried_with_the_same_id(acme: Tenancy, receiver: WebhookReceiver, secret: str, code: int):
    acme.log("a", "b")
    receiver.answers = [status(code)]
    acme.deliver()
    feed = acme.feed()
    assert (feed.delivered, feed.attempts, acme.state()) == (0, 1, "failing")
    assert f"status {code}" in feed.failure
    assert feed.next_attempt_at > utc_now() - timedelta(seconds=1)
    acme.deliver()
    assert receiver.names == ["a", "b"]
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert (acme.feed().attempts, acme.state()) == (0, "ok")


def test_too_large_batch_is_halved_until_accepted(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    names = [*map(str, range(100))]
    acme.log(*names)
    receiver.usual = lambda handler: status(204 if int(handler.headers["Content-Length"]) < 20_000 else 413)(handler)
    acme.deliver()
    assert receiver.names == names
    assert (acme.feed().delivered, acme.state()) == (100, "ok")


def test_body_size_is_limited_in_octets_too(
    acme: Tenancy, receiver: WebhookReceiver, secret: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook_sender, "MAX_OCTETS", 6_000)
    names = [*map(str, range(60)), "x" * 200, *map(str, range(60, 100))]
    acme.log(*names)
    acme.deliver()
    assert all(len(body) <= 6_000 for _, body in receiver.requests)
    # No request failed, and no batch is smaller than necessary.
    assert len(receiver.requests) <= 20
    assert receiver.names == names
    assert (acme.feed().delivered, acme.feed().lost, acme.state()) == (101, 0, "ok")


def test_oversized_event_is_shortened(
    acme: Tenancy, receiver: WebhookReceiver, secret: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook_sender, "MAX_OCTETS", 1_500)
    acme.log("a", "x" * 2_000, "b")
    acme.deliver()
    assert all(len(body) <= 1_500 for _, body in receiver.requests)
    first, long, last = receiver.taken
    assert (first["user"]["name"], last["user"]["name"]) == ("a", "b")
    assert long["left_out"]
    assert (acme.feed().delivered, acme.feed().lost) == (3, 0)


def rejecting(receiver: WebhookReceiver, *names: str, code: int = 400) -> None:
    """Reject each batch that contains one of these events."""

    def answer(handler) -> bool:
        events = json.loads(receiver.requests[-1][1])["data"]["events"]
        refused = any(event["user"]["name"] in names for event in events)
        return status(code if refused else 204)(handler)

    receiver.usual = answer


def deliver(tenancy: Tenancy, times: int) -> None:
    for _ in range(times):
        tenancy.deliver()


@pytest.mark.parametrize("code", [400, *(pytest.param(code, marks=pytest.mark.long) for code in (413, 500))])
def test_rejected_events_are_dropped_after_others_succeed(
    acme: Tenancy, receiver: WebhookReceiver, secret: str, code: int
):
    names = [str(number) for number in range(250)]
    acme.log(*names)
    refused = ["0", "17", "18", "19", "130", "249"]
    rejecting(receiver, *refused, code=code)
    deliver(acme, SEARCH_AFTER_ATTEMPTS)
    # The receiver fails temporarily, and no event is lost.
    assert (acme.feed().lost, acme.feed().attempts, acme.state()) == (0, SEARCH_AFTER_ATTEMPTS, "failing")
    acme.deliver()
    assert receiver.names == [name for name in names if name not in refused]
    assert (acme.feed().delivered, acme.feed().lost, acme.state()) == (244, 6, "ok")
    told = [after for (after,) in acme.sql("SELECT after FROM audit_log WHERE action = 'feed.give-up' ORDER BY id")]
    assert sum(after["number"] for after in told) == 6
    assert [id_.rpartition("-")[2] for after in told for id_ in after["ids"]] == [
        str(int(receiver.taken[0]["event"]["id"].rpartition("-")[2]) - 1 + int(name)) for name in refused
    ]
    assert str(code) in told[0]["because"]
    # The next rejected event is isolated at once. If none is rejected, the next failure counts as the first failure.
    acme.log("17", "more")
    acme.deliver()
    assert receiver.names[-1] == "more"
    acme.log("again")
    acme.deliver()
    assert acme.feed().attempts == 0


def test_receiver_that_rejects_everything_loses_nothing(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    names = [str(number) for number in range(8)]
    acme.log(*names)
    receiver.usual = status(400)
    deliver(acme, SEARCH_AFTER_ATTEMPTS + 2)
    assert (acme.feed().delivered, acme.feed().lost, acme.state()) == (0, 0, "failing")
    receiver.usual = status(204)
    acme.deliver()
    assert receiver.names == names


def test_single_rejected_event_waits_for_others_to_succeed(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    rejecting(receiver, "bad")
    acme.log("bad")
    deliver(acme, SEARCH_AFTER_ATTEMPTS + 1)
    assert (acme.feed().lost, acme.state()) == (0, "failing")
    acme.log("good")
    acme.deliver()
    assert receiver.names == ["good"]
    assert (acme.feed().lost, acme.state()) == (1, "ok")


@pytest.mark.parametrize("code", [401, 403, 404, 408, 429, 502, 503, 504])
def test_status_unrelated_to_the_events_drops_none(acme: Tenancy, receiver: WebhookReceiver, secret: str, code: int):
    acme.log("a", "b")
    rejecting(receiver, "a", code=code)
    deliver(acme, SEARCH_AFTER_ATTEMPTS + 1)
    assert (acme.feed().lost, receiver.names) == (0, [])


def test_retry_delay_grows_up_to_a_limit(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    receiver.usual = status(500)
    now = utc_now()
    pauses = []
    for _ in range(12):
        acme.deliver(clock=lambda: now)
        pauses.append((acme.feed().next_attempt_at - now).total_seconds())
    assert 1 <= pauses[0] <= 2
    assert all(min(2**number, 300) / 2 <= pause <= min(2**number, 300) for number, pause in enumerate(pauses, 1))


def test_retry_after_is_honoured_up_to_a_limit(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    now = utc_now()
    # Without a valid value, the pause doubles.
    for said, least, most in (
        *(("soon", 1, 2), ("-5", 2, 4), ("Mon, 01 Jan 2001 00:00:00 GMT", 4, 8)),
        *(("120", 120, 121), ("999999999999", 3600, 3601)),
    ):
        receiver.answers = [status(429, Retry_After=said)]
        acme.deliver(clock=lambda: now)
        assert least <= (acme.feed().next_attempt_at - now).total_seconds() <= most


@given(
    st.text(st.characters(max_codepoint=255), max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6}.*")
)
def test_invalid_retry_after_is_ignored(said: str):
    waited = webhook_sender._retry_after({"Retry-After": said})
    assert waited is None or 0 <= waited <= 3600


def test_status_410_pauses_the_feed_until_resumed(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    receiver.answers = [status(410)]
    acme.deliver()
    assert acme.state() == "paused"
    assert "410" in acme.feed().paused_because
    acme.deliver()
    assert len(receiver.requests) == 1
    acme.do(service.resume_feed, now=utc_now())
    acme.deliver()
    assert receiver.names == ["a"]


@pytest.mark.parametrize("how", ["slow", "loris", "reset"])
def test_silent_receiver_times_out(acme: Tenancy, receiver: WebhookReceiver, monkeypatch, how: str):
    monkeypatch.setattr("nac.logs.feeds.settings._MIN_TIMEOUT_SECONDS", 0.5)
    add(acme, receiver, timeout_seconds=0.5)
    acme.log("a")
    receiver.answers = [getattr(receiver, how)]
    acme.deliver()
    assert acme.state() == "failing"
    assert acme.feed().failure != ""
    until(lambda: not acme.deliver() and receiver.names == ["a"], "it is sent again")


def test_slow_receiver_gets_smaller_batches(acme: Tenancy, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nac.logs.feeds.settings._MIN_TIMEOUT_SECONDS", 0.5)
    add(acme, receiver, timeout_seconds=0.5)
    names = [f"user {number}" for number in range(24)]
    acme.log(*names)

    def at_its_pace(handler) -> bool:
        events = json.loads(receiver.requests[-1][1])["data"]["events"]
        return receiver.slow(handler) if len(events) > 4 else status(204)(handler)

    receiver.usual = at_its_pace
    acme.deliver()
    assert acme.feed().failure == "No response within 0.5 s."
    assert acme.feed().at_once == 12
    until(lambda: not acme.deliver() and acme.state() == "ok", "all is sent")
    assert list(dict.fromkeys(receiver.names)) == names
    assert acme.feed().lost == 0
    # Batches are full again when the receiver accepts them.
    receiver.usual = status(204)
    acme.log(*(f"more {number}" for number in range(1_000)))
    acme.deliver()
    assert acme.feed().at_once is None


def test_endless_response_is_not_read_and_its_status_counts(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    receiver.answers = [receiver.endless]
    acme.deliver()
    assert (acme.feed().delivered, acme.state()) == (1, "ok")


def test_headers_are_sent_and_never_shown_in_errors(
    acme: Tenancy, receiver: WebhookReceiver, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    secret = add(acme, receiver, headers={"Authorization": "Splunk of-the-receiver", "X-Team": "net work"})
    acme.log("a")
    receiver.answers = [status(500), receiver.reset]
    acme.deliver()
    assert "of-the-receiver" not in acme.feed().failure
    acme.deliver()
    assert "of-the-receiver" not in acme.feed().failure
    acme.deliver()
    headers, body = receiver.requests[-1]
    assert (headers["Authorization"], headers["X-Team"]) == ("Splunk of-the-receiver", "net work")
    assert verify(secret, headers, body)
    assert "Splunk" not in caplog.text


def test_waiting_events_are_sent_to_the_new_address(acme: Tenancy, receiver: WebhookReceiver, tmp_path):
    """Requests to the new address use the old secret. Outcomes that are not selected any more are skipped."""
    (tmp_path / "other").mkdir()
    with WebhookReceiver(tmp_path / "other").listening() as elsewhere:
        secret = add(acme, elsewhere)
        elsewhere.usual = status(500)
        acme.log("in")
        acme.log("out", permitted=False)
        acme.deliver()
        url = f"https://localhost:{receiver.port}/"
        acme.update({"url": url, "outcomes": ("failure",)})
        acme.deliver()
    assert receiver.names == ["out"]
    assert verify(secret, *receiver.requests[0])


def test_redirects_are_not_followed(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    receiver.answers = [status(307, Location=f"https://localhost:{receiver.port}/elsewhere")]
    acme.deliver()
    assert "Redirects are not followed" in acme.feed().failure
    assert len(receiver.requests) == 1


def test_internal_addresses_are_blocked(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    acme.deliver(reach=DEFAULT_REACH)
    assert "loopback" in acme.feed().failure
    assert receiver.requests == []


def test_certificate_of_another_authority_is_rejected(acme: Tenancy, receiver: WebhookReceiver):
    add(acme, receiver, ca_certificate=self_signed("other").certificate)
    acme.log("a")
    acme.deliver()
    assert acme.feed().failure.startswith("Invalid certificate: ")
    assert receiver.requests == []


@pytest.mark.usefixtures("dotted_names")
def test_trailing_dot_in_the_name_is_accepted(acme: Tenancy, receiver: WebhookReceiver):
    add(acme, receiver)
    acme.update({"url": f"https://localhost.:{receiver.port}/"})
    acme.log("a")
    acme.deliver()
    assert (receiver.names, acme.state()) == (["a"], "ok")


def test_both_secrets_sign_during_a_rotation(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    new = acme.do(service.rotate_secret, sealer=SEALER, keep=timedelta(hours=1), now=utc_now())
    acme.log("a")
    acme.deliver()
    [request] = receiver.requests
    assert verify(secret, *request)
    assert verify(new, *request)
    acme.log("b")
    acme.deliver(clock=lambda: utc_now() + timedelta(hours=2))
    assert not verify(secret, *receiver.requests[1])
    assert verify(new, *receiver.requests[1])


def test_secret_with_another_master_key_is_a_visible_failure(acme: Tenancy, receiver: WebhookReceiver, secret: str):
    acme.log("a")
    acme.deliver(sealer=lambda: Sealer(RawKey(bytes(32))))
    assert "secret cannot be decrypted" in acme.feed().failure
    acme.deliver()
    assert receiver.names == ["a"]
