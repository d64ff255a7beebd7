"""Feeds. Responses never contain sealed values."""

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.models import AuditEntry, Feed
from tests.api.v1.responses import created, refusal
from tests.feeds.webhook_receiver import LOCALHOST, WebhookReceiver

FEEDS = "/v1/tenants/alpha/feeds"
KEY, HEADER = "key-in-the-address", "Bearer of-the-receiver"
WEBHOOK = {
    "kind": "webhook",
    "name": "siem",
    "settings": {
        "url": f"https://siem.example/{KEY}",
        "headers": {"Authorization": HEADER},
        "kinds": ["authentication"],
    },
}


@pytest.fixture
def outbound_networks() -> str:
    return "127.0.0.0/8 ::1/128"


def test_webhook_lifecycle_shows_secrets_once(api: httpx.Client, owner_engine: Engine) -> None:
    made = created(api.post(FEEDS, json=WEBHOOK))
    secret = made["secret"]
    assert (secret.startswith("whsec_"), made["destination"]) == (True, "https://siem.example/...")
    feed = f"{FEEDS}/siem"
    answers = [
        api.get(FEEDS),
        api.get(feed),
        api.patch(feed, json={"batch": 7}),
        api.patch(feed, json={"batch": None}),
        api.post(f"{feed}/pause", json={"because": "moving"}),
        api.post(f"{feed}/resume"),
        api.post(f"{feed}/replay", json={"since": "2026-11-01T00:00:00Z"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 200, 202]
    assert [answer.json()["settings"]["batch"] for answer in answers[1:4]] == [100, 7, 100]
    assert (answers[4].json()["state"], answers[4].json()["paused_because"]) == ("paused", "moving")
    rotated = api.post(f"{feed}/rotate-secret", json={"keep_seconds": 60})
    assert rotated.json()["secret"] not in ("", secret)
    assert api.get(feed).json()["former_secret_until"]
    with Session(owner_engine) as session:
        audited = " ".join(str((row.before, row.after)) for row in session.query(AuditEntry))
        stored = session.query(Feed).one()
        told = " ".join([audited, str(stored.settings), *(answer.text for answer in answers)])
    for hidden in (secret, rotated.json()["secret"], KEY, HEADER):
        assert hidden not in told
    assert api.delete(feed).status_code == 204
    assert api.get(feed).json()["code"] == "feed-not-found"


def test_webhook_test_uses_real_tls(api: httpx.Client, tmp_path) -> None:
    with WebhookReceiver(tmp_path).listening() as receiver:
        settings = {
            "url": f"https://localhost:{receiver.port}/",
            "ca_certificate": LOCALHOST.certificate,
            "networks": ["127.0.0.0/8", "::1/128"],
        }
        added = created(api.post(FEEDS, json={"kind": "webhook", "name": "local", "settings": settings}))
        assert added["settings"]["ca_certificate"] == "(PEM)"
        sent = api.post(f"{FEEDS}/local/test")
        assert sent.status_code == 200, sent.text
        assert (sent.json()["delivered"], sent.json()["failure"]) == (True, "")
        assert receiver.ids == [sent.json()["sent"]]


@pytest.mark.parametrize("outbound_networks", ["127.0.0.0/8"])
def test_failed_feed_test_is_a_result(api: httpx.Client) -> None:
    closed = "https://127.0.0.1:1/"
    api.post(FEEDS, json={"kind": "webhook", "name": "closed", "settings": {"url": closed}})
    api.post(FEEDS, json={"kind": "syslog", "name": "logs", "settings": {"host": "127.0.0.1", "port": 1}})
    for name in ("closed", "logs"):
        answer = api.post(f"{FEEDS}/{name}/test")
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert (told["delivered"], told["sent"]) == (False, "")
        assert told["failure"], told


def test_syslog_feed_has_its_own_settings(api: httpx.Client) -> None:
    body = {"kind": "syslog", "name": "logs", "settings": {"host": "logs.example", "severities": {"alarm": "crit"}}}
    made = created(api.post(FEEDS, json=body))
    assert (made["destination"], made["secret"]) == ("logs.example:6514", None)
    changed = api.patch(f"{FEEDS}/logs", json={"port": 7000, "facility": "local3", "severities": None})
    assert changed.json()["destination"] == "logs.example:7000"
    assert changed.json()["settings"]["severities"] == {}
    assert api.patch(f"{FEEDS}/logs", json={"url": "https://siem.example/"}).json()["place"] == "url"
    [mistake] = api.patch(f"{FEEDS}/logs", json={"host": None}).json()["mistakes"]
    assert mistake["place"] == "host"
    refused = api.post(f"{FEEDS}/logs/rotate-secret", json={})
    assert (refused.status_code, "not a webhook" in refused.json()["detail"]) == (422, True)
    assert api.post(f"{FEEDS}/logs/rotate-secret", json={"client_key": "x"}).status_code == 422


@pytest.mark.parametrize("outbound_networks", [""])
def test_blocked_address_is_rejected_on_save(api: httpx.Client) -> None:
    """The API applies the rules of the sender."""
    for host in (
        *("127.0.0.9", "127.1", "0x7f000009", "[::ffff:127.0.0.9]", "169.254.10.1", "169.254.169.254"),
        *("0.0.0.1", "[::]", "[fe80::1]", "127.0.0.9.", "[::ffff:0:127.0.0.9]"),
    ):
        of_syslog = {"name": "logs", "kind": "syslog", "settings": {"host": host.strip("[]")}}
        of_webhook = {"name": "hook", "kind": "webhook", "settings": {"url": f"https://{host}/in"}}
        for body, place in ((of_syslog, "host"), (of_webhook, "url")):
            refused = api.post(FEEDS, json=body)
            assert (refusal(refused), refused.json()["place"]) == ((422, "invalid-feed"), place), host
            assert "ADMIT_OUTBOUND_NETWORKS" in refused.json()["remedy"]
    assert api.get(FEEDS).json()["items"] == []


def test_feed_address_outside_the_networks_is_rejected(api: httpx.Client) -> None:
    settings = {"host": "203.0.113.9", "networks": ["203.0.113.0/24"]}
    assert api.post(FEEDS, json={"name": "logs", "kind": "syslog", "settings": settings}).status_code == 201
    for change, told in (
        ({"host": "198.51.100.9"}, "outside of the configured networks"),
        ({"host": "::"}, "not a server"),
    ):
        refused = api.patch(f"{FEEDS}/logs", json=change)
        assert (refused.status_code, refused.json()["place"]) == (422, "host")
        assert told in refused.json()["detail"]
        assert refused.json()["remedy"]
    assert api.patch(f"{FEEDS}/logs", json={"host": "localhost"}).status_code == 200


def test_new_invalid_address_of_a_feed_with_headers_is_named(api: httpx.Client) -> None:
    created(api.post(FEEDS, json=WEBHOOK))
    for url in ("https://[", "https://siem.example:99999/", "ldap://["):
        refused = api.patch(f"{FEEDS}/siem", json={"url": url})
        assert (refused.status_code, refused.json()["place"]) == (422, "url")
