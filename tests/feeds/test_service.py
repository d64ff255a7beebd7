"""Creating, reading, updating and deleting feeds. A response reports all errors, and then nothing is stored."""

from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput, SeveralMistakes
from nac.kit.secrets import SecretsError
from nac.logs.feeds import service
from nac.logs.feeds import settings as sealed_settings
from nac.logs.feeds.service import FeedExists, InvalidFeed, TooManyFeeds
from nac.logs.feeds.settings import SyslogSettings, WebhookSettings, find_mistakes, shorten_url
from tests.factories.certificates import SEALER
from tests.feeds.certificates import self_signed
from tests.feeds.conftest import Tenancy, of_kinds


def syslog(**given) -> SyslogSettings:
    return SyslogSettings(**{"host": "siem.example"} | given)


def webhook(**given) -> WebhookSettings:
    return WebhookSettings(**{"url": "https://siem.example/"} | given)


MINE = self_signed("nac.example")
WEAK = self_signed("weak.example", is_weak=True)
SECRETS = WebhookSettings(
    url="https://siem.example:8443/of-the-receiver?key=1", headers={"Authorization": "Splunk of-the-receiver"}
)
INVALID_SYSLOG = {
    "host": ["siem example", "a" * 64 + ".example"],
    "port": [0, 65536],
    "facility": ["local8"],
    "app_name": ["a b", "a" * 49],
    "hostname": ["ä"],
    "enterprise": [0],
    "severities": [{"authentication.maybe": "info"}, {"authentication": "loud"}],
    "kinds": [("decisions",), ()],
    "outcomes": [("maybe",), ("unknown",)],
    "networks": [("10.0.0.1/8",)],
    "ca_certificate": ["no PEM"],
    "timeout_seconds": [11],
    "client_certificate": [MINE.certificate],
}
INVALID_WEBHOOK = {
    "url": [
        *("http://siem.example/", "https://user@siem.example/", "https://siem.example:99999/"),
        "https://siem.example/#x",
    ],
    "headers": [
        *({"Authorization": value} for value in ("", "a\r\nX: b", " a", "ä", "a" * 4097)),
        *({name: "a"} for name in ("X Y", "", "Host", "content-Length", "Webhook-Signature")),
        {"A": "x", "a": "y"},
        {f"X-{number}": "a" for number in range(11)},
    ],
    "batch": [0, 501],
}


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        *((syslog(**{place: value}), place) for place, values in INVALID_SYSLOG.items() for value in values),
        *((webhook(**{place: value}), place) for place, values in INVALID_WEBHOOK.items() for value in values),
        (syslog(kinds=("audit", "accounting"), outcomes=("failure",)), "outcomes"),
    ],
)
def test_invalid_setting_is_named(settings, place):
    assert [where for where, _ in find_mistakes(settings)] == [place]


@pytest.mark.parametrize(
    "settings",
    [
        syslog(host="2001:db8::1", port=65535, app_name="a" * 48, severities={"coa": "err", "coa.failure": "crit"}),
        syslog(host="siem.example.", hostname="n" * 255, enterprise=2**32 - 1, timeout_seconds=1),
        syslog(kinds=("audit", "coa"), outcomes=("failure", "unknown")),
        webhook(url="https://siem.example:8443/services?x=y", batch=500, timeout_seconds=10),
        webhook(headers={"Authorization": "Bearer " + "a" * 4089, **{f"X-{number}": "a" for number in range(9)}}),
    ],
)
def test_settings_at_their_limits_are_accepted(settings):
    assert find_mistakes(settings) == []


@pytest.mark.parametrize(
    ("certificate", "key", "place"),
    [
        (MINE.certificate, self_signed("other").key, "client_key"),
        (MINE.certificate, "no PEM", "client_key"),
        ("no PEM", MINE.key, "client_certificate"),
        ("", MINE.key, "client_certificate"),
        (WEAK.certificate, WEAK.key, "client_certificate"),
    ],
)
def test_certificate_and_key_must_match_and_be_strong(certificate, key, place):
    found = find_mistakes(syslog(client_certificate=certificate), client_key=key)
    assert [where for where, _ in found] == [place]


def test_all_errors_are_reported_and_nothing_is_stored(acme: Tenancy):
    with pytest.raises(SeveralMistakes) as told:
        acme.add("No Slug", SyslogSettings(host="", port=0, kinds=()))
    assert {mistake.place for mistake in told.value.mistakes} == {"name", "host", "port", "kinds"}
    assert acme.sql("SELECT FROM feeds") == []


def test_name_is_unique_per_tenant(acme: Tenancy, other: Tenancy):
    acme.add()
    with pytest.raises(FeedExists):
        acme.add()
    other.add()


def test_number_of_feeds_per_tenant_is_limited(acme: Tenancy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MAX_FEEDS", 1)
    acme.add("a")
    with pytest.raises(TooManyFeeds):
        acme.add("b")


def test_every_change_is_audited_and_secrets_stay_sealed(acme: Tenancy):
    secret = acme.add(settings=SECRETS).secret
    feed = acme.feed()
    assert sealed_settings.visible_settings(feed)["url"] == "https://siem.example:8443/..."
    assert sealed_settings.visible_settings(feed)["headers"] == {"Authorization": "(sealed)"}
    assert sealed_settings.open_settings(feed, SEALER) == SECRETS
    stored = acme.sql("SELECT feeds::text FROM feeds")
    acme.do(service.pause_feed, because="maintenance")
    acme.do(service.resume_feed, now=utc_now())
    acme.replay(since=timedelta(days=3))
    acme.do(service.delete_feed)
    rows = acme.sql("SELECT action, before::text, after::text FROM audit_log WHERE action LIKE 'feed.%' ORDER BY id")
    assert [row[0] for row in rows] == ["feed.add", "feed.pause", "feed.resume", "feed.replay", "feed.remove"]
    for hidden in (secret, "of-the-receiver"):
        assert hidden not in str((stored, rows))
        assert hidden.encode() not in feed.private_sealed + feed.secret_sealed


def test_sealed_value_is_bound_to_its_row_and_field(acme: Tenancy):
    acme.add("first", SECRETS)
    acme.add("second", SECRETS)
    feed = acme.feed("second")
    for elsewhere in (acme.feed("first").private_sealed, feed.secret_sealed):
        feed.private_sealed = elsewhere
        with pytest.raises(SecretsError):
            sealed_settings.open_settings(feed, SEALER)


def test_address_from_before_sealing_still_works(acme: Tenancy):
    acme.add(settings=SECRETS)
    document = Jsonb({"url": SECRETS.url, "batch": 100, "kinds": ["audit"]})
    acme.sql("UPDATE feeds SET private_sealed = NULL, settings = %s", document)
    feed = acme.feed()
    assert sealed_settings.open_settings(feed, SEALER).url == SECRETS.url
    assert sealed_settings.visible_settings(feed)["url"] == "https://siem.example:8443/..."
    acme.update({"batch": 50})
    assert sealed_settings.open_settings(acme.feed(), SEALER).url == SECRETS.url
    assert "of-the-receiver" not in str(acme.feed().settings)


@pytest.mark.parametrize(
    ("url", "short"),
    [
        ("https://siem.example", "https://siem.example/"),
        ("https://siem.example/", "https://siem.example/"),
        ("https://siem.example/?k", "https://siem.example/..."),
        ("https://[2001:db8::1]:8443/k", "https://[2001:db8::1]:8443/..."),
    ],
)
def test_short_address_is_the_host_only(url: str, short: str):
    assert shorten_url(url) == shorten_url(short) == short


def test_settings_are_updated_one_by_one(acme: Tenancy):
    acme.add(settings=SECRETS)
    changes = {"url": "https://siem.example:8443/other", "kinds": ("audit", "coa"), "outcomes": ("failure",)}
    acme.update(changes, reset=["timeout_seconds"])
    feed = acme.feed()
    assert sealed_settings.open_settings(feed, SEALER) == WebhookSettings(headers=SECRETS.headers, **changes)
    # Such a filter could match no row of the audit log.
    assert feed.sources == ["coa_requests"]
    [(before, after)] = acme.sql("SELECT before, after FROM audit_log WHERE action = 'feed.set'")
    assert (before["outcomes"], after["outcomes"]) == ([], ["failure"])
    assert set(after) == {"url", "kinds", "outcomes", "timeout_seconds"}
    acme.update({}, reset=["outcomes", "headers", "kinds"])
    assert sealed_settings.open_settings(acme.feed(), SEALER) == WebhookSettings(url="https://siem.example:8443/other")


def test_failing_feed_is_retried_at_once_after_an_update(acme: Tenancy):
    acme.add()
    later = utc_now() + timedelta(hours=1)
    acme.sql("UPDATE feeds SET attempts = 9, next_attempt_at = %s, failing_since = now()", later)
    now = utc_now()
    acme.update({"host": "198.51.100.2"}, now=now)
    assert (acme.feed().attempts, acme.feed().next_attempt_at) == (0, now)


@pytest.mark.parametrize(
    ("changes", "reset", "places"),
    [
        ({}, [], {"settings"}),
        ({"batch": 0}, [], {"batch"}),
        ({"url": "http://siem.example/", "batch": 0, "headers": {"Host": "x"}}, [], {"url", "batch", "headers"}),
        ({"host": "siem.example", "port": 1}, [], {"host", "port"}),
        ({}, ["url"], {"url"}),
        ({}, ["client_certificate"], {"client_certificate"}),
        # Admit does not send a header for one server to another server.
        ({"url": "https://elsewhere.example:8443/"}, [], {"headers"}),
        ({"url": "https://siem.example/"}, [], {"headers"}),
    ],
)
def test_invalid_update_changes_nothing(acme: Tenancy, changes, reset, places):
    acme.add(settings=SECRETS)
    with pytest.raises((InvalidInput, SeveralMistakes)) as told:
        acme.update(changes, reset=reset)
    assert {mistake.place for mistake in getattr(told.value, "mistakes", [told.value])} == places
    assert "of-the-receiver" not in str(told.value)
    assert sealed_settings.open_settings(acme.feed(), SEALER) == SECRETS
    assert acme.sql("SELECT FROM audit_log WHERE action = 'feed.set'") == []


@pytest.mark.parametrize(
    ("changes", "reset", "headers"), [({}, ["headers"], {}), ({"headers": {"X-Key": "new"}}, [], {"X-Key": "new"})]
)
def test_new_server_requires_headers_again(acme: Tenancy, changes, reset, headers):
    acme.add(settings=SECRETS)
    acme.update({"url": "https://elsewhere.example/", **changes}, reset=reset)
    assert sealed_settings.open_settings(acme.feed(), SEALER).headers == headers


def test_client_certificate_stays_when_other_settings_change(acme: Tenancy):
    acme.add(settings=syslog(client_certificate=MINE.certificate), client_key=MINE.key)
    acme.update({"port": 16514})
    assert sealed_settings.open_settings(acme.feed(), SEALER).client_certificate == MINE.certificate


def test_waiting_rows_are_deleted_with_the_feed(acme: Tenancy):
    acme.add()
    acme.replay(since=timedelta(days=365))
    acme.do(service.delete_feed)
    assert acme.sql("SELECT FROM feed_marks WHERE feed_id IS NOT NULL") == []


def test_state_shows_progress(acme: Tenancy):
    acme.add(settings=of_kinds("authentication"))
    assert acme.state() == "ok"
    acme.log("a", "b")
    assert acme.state() == "ok"
    acme.sql("UPDATE feed_marks SET at = now() - interval '2 minutes'")
    assert acme.state() == "behind"
    acme.do(service.pause_feed)
    assert acme.state() == "paused"


@pytest.mark.parametrize("days", [-1, 0, 401])
def test_replay_of_an_invalid_period_is_rejected(acme: Tenancy, days: int):
    acme.add()
    with pytest.raises(InvalidFeed):
        acme.replay(since=timedelta(days=days))
