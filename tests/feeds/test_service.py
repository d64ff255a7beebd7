"""Creating, reading, updating and deleting feeds. A response reports all errors, and then nothing is stored."""

from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput, SeveralMistakes
from nac.kit.secrets import SecretsError
from nac.logs.feeds import service
from nac.logs.feeds.service import FeedExists, FeedNotFound, InvalidFeed, TooManyFeeds
from nac.logs.feeds.settings import (
    SyslogSettings,
    WebhookSettings,
    find_mistakes,
    open_settings,
    shorten_url,
    visible_settings,
)
from tests.factories.certificates import SEALER
from tests.feeds.certificates import self_signed
from tests.feeds.conftest import NOWHERE, Tenancy


def webhook(**given) -> WebhookSettings:
    return WebhookSettings(url="https://siem.example/", **given)


GOOD = SyslogSettings(host="siem.example")
MINE = self_signed("nac.example")


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (SyslogSettings(host="siem example"), "host"),
        (SyslogSettings(host="a" * 64 + ".example"), "host"),
        (SyslogSettings(host="siem.example", port=0), "port"),
        (SyslogSettings(host="siem.example", port=65536), "port"),
        (SyslogSettings(host="siem.example", facility="local8"), "facility"),
        (SyslogSettings(host="siem.example", app_name="a b"), "app_name"),
        (SyslogSettings(host="siem.example", app_name="a" * 49), "app_name"),
        (SyslogSettings(host="siem.example", hostname="ä"), "hostname"),
        (SyslogSettings(host="siem.example", enterprise=0), "enterprise"),
        (SyslogSettings(host="siem.example", severities={"authentication.maybe": "info"}), "severities"),
        (SyslogSettings(host="siem.example", severities={"authentication": "loud"}), "severities"),
        (SyslogSettings(host="siem.example", kinds=("decisions",)), "kinds"),
        (SyslogSettings(host="siem.example", kinds=()), "kinds"),
        (SyslogSettings(host="siem.example", outcomes=("maybe",)), "outcomes"),
        (SyslogSettings(host="siem.example", networks=("10.0.0.1/8",)), "networks"),
        (SyslogSettings(host="siem.example", ca_certificate="no PEM"), "ca_certificate"),
        (SyslogSettings(host="siem.example", timeout_seconds=11), "timeout_seconds"),
        (SyslogSettings(host="siem.example", client_certificate=MINE.certificate), "client_certificate"),
        (WebhookSettings(url="http://siem.example/"), "url"),
        (WebhookSettings(url="https://user@siem.example/"), "url"),
        (WebhookSettings(url="https://siem.example:99999/"), "url"),
        (WebhookSettings(url="https://siem.example/#x"), "url"),
        (webhook(headers={"Authorization": ""}), "headers"),
        (webhook(headers={"Authorization": "a\r\nX: b"}), "headers"),
        (webhook(headers={"Authorization": " a"}), "headers"),
        (webhook(headers={"Authorization": "ä"}), "headers"),
        (webhook(headers={"Authorization": "a" * 4097}), "headers"),
        (webhook(headers={"X Y": "a"}), "headers"),
        (webhook(headers={"": "a"}), "headers"),
        (webhook(headers={"Host": "a"}), "headers"),
        (webhook(headers={"content-Length": "1"}), "headers"),
        (webhook(headers={"Webhook-Signature": "v1,x"}), "headers"),
        (webhook(headers={"A": "x", "a": "y"}), "headers"),
        (webhook(headers={f"X-{number}": "a" for number in range(11)}), "headers"),
        (SyslogSettings(host="siem.example", outcomes=("unknown",)), "outcomes"),
        (SyslogSettings(host="siem.example", kinds=("audit", "accounting"), outcomes=("failure",)), "outcomes"),
        (WebhookSettings(url="https://siem.example/", batch=0), "batch"),
        (WebhookSettings(url="https://siem.example/", batch=501), "batch"),
    ],
)
def test_invalid_setting_is_named(settings, place):
    assert [where for where, _ in find_mistakes(settings)] == [place]


@pytest.mark.parametrize(
    "settings",
    [
        GOOD,
        SyslogSettings(
            host="2001:db8::1", port=65535, app_name="a" * 48, severities={"coa": "err", "coa.failure": "crit"}
        ),
        SyslogSettings(host="siem.example.", hostname="n" * 255, enterprise=2**32 - 1, timeout_seconds=1),
        WebhookSettings(url="https://siem.example:8443/services?x=y", batch=500, timeout_seconds=10),
        webhook(headers={"Authorization": "Bearer " + "a" * 4089, **{f"X-{number}": "a" for number in range(9)}}),
        SyslogSettings(host="siem.example", kinds=("audit", "coa"), outcomes=("failure", "unknown")),
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
    ],
)
def test_certificate_and_key_must_match(certificate, key, place):
    settings = SyslogSettings(host="siem.example", client_certificate=certificate)
    assert [where for where, _ in find_mistakes(settings, client_key=key)] == [place]


def test_all_errors_are_reported_and_nothing_is_stored(acme: Tenancy):
    with pytest.raises(SeveralMistakes) as told:
        acme.add("No Slug", SyslogSettings(host="", port=0, kinds=()))
    assert {mistake.place for mistake in told.value.mistakes} == {"name", "host", "port", "kinds"}
    assert listed(acme) == []


def listed(tenancy: Tenancy) -> list[str]:
    with psycopg.connect(tenancy.owner_url) as connection:
        return [slug for (slug,) in connection.execute("SELECT slug FROM feeds ORDER BY slug")]


def test_duplicate_name_is_rejected(acme: Tenancy, other: Tenancy):
    acme.add()
    with pytest.raises(FeedExists):
        acme.add()
    other.add()


def test_number_of_feeds_per_tenant_is_limited(acme: Tenancy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MAX_FEEDS", 2)
    acme.add("a")
    acme.add("b")
    with pytest.raises(TooManyFeeds):
        acme.add("c")


def test_feed_of_another_tenant_does_not_exist(acme: Tenancy, other: Tenancy):
    acme.add()
    with pytest.raises(FeedNotFound):
        other.feed()
    with pytest.raises(FeedNotFound):
        other.do(service.delete_feed)


def test_audit_log_has_every_change_without_secrets(acme: Tenancy):
    secret = acme.add(settings=WebhookSettings(url="https://siem.example/of-the-receiver")).secret
    acme.do(service.pause_feed, because="maintenance")
    acme.do(service.resume_feed, now=utc_now())
    acme.do(service.replay_feed, since=utc_now() - timedelta(days=3), until=utc_now(), now=utc_now())
    acme.do(service.delete_feed)
    with psycopg.connect(acme.owner_url) as connection:
        rows = connection.execute(
            "SELECT action, before::text, after::text FROM audit_log WHERE action LIKE 'feed.%' ORDER BY id"
        ).fetchall()
    assert [row[0] for row in rows] == ["feed.add", "feed.pause", "feed.resume", "feed.replay", "feed.remove"]
    assert secret is not None
    assert secret not in str(rows)
    assert "of-the-receiver" not in str(rows)


SECRETS = WebhookSettings(
    url="https://siem.example:8443/of-the-receiver?key=1", headers={"Authorization": "Splunk of-the-receiver"}
)


def test_address_and_headers_are_sealed_and_shortened(acme: Tenancy):
    acme.add(settings=SECRETS)
    feed = acme.feed()
    assert visible_settings(feed)["url"] == "https://siem.example:8443/..."
    assert visible_settings(feed)["headers"] == {"Authorization": "(sealed)"}
    assert open_settings(feed, SEALER) == SECRETS
    with psycopg.connect(acme.owner_url) as connection:
        stored = connection.execute("SELECT feeds::text FROM feeds").fetchall()
        told = connection.execute("SELECT after::text FROM audit_log WHERE action LIKE 'feed.%'").fetchall()
    assert "of-the-receiver" not in str(stored)
    assert "of-the-receiver" not in str(told)
    assert b"of-the-receiver" not in feed.private_sealed


def test_sealed_value_is_bound_to_its_row_and_field(acme: Tenancy):
    acme.add("first", SECRETS)
    acme.add("second", SECRETS)
    feed = acme.feed("second")
    feed.private_sealed = acme.feed("first").private_sealed
    with pytest.raises(SecretsError):
        open_settings(feed, SEALER)
    feed.private_sealed = feed.secret_sealed
    with pytest.raises(SecretsError):
        open_settings(feed, SEALER)


def test_address_from_before_sealing_still_works(acme: Tenancy):
    acme.add(settings=SECRETS)
    with psycopg.connect(acme.owner_url) as connection:
        document = Jsonb({"url": SECRETS.url, "batch": 100, "kinds": ["audit"]})
        connection.execute("UPDATE feeds SET private_sealed = NULL, settings = %s", [document])
    feed = acme.feed()
    assert open_settings(feed, SEALER).url == SECRETS.url
    assert visible_settings(feed)["url"] == "https://siem.example:8443/..."
    acme.do(service.update_feed, changes={"batch": 50}, sealer=SEALER, now=utc_now())
    assert open_settings(acme.feed(), SEALER).url == SECRETS.url
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
    acme.do(
        service.update_feed,
        changes={"url": "https://siem.example:8443/other", "kinds": ("audit", "coa"), "outcomes": ("failure",)},
        reset=["timeout_seconds"],
        sealer=SEALER,
        now=utc_now(),
    )
    feed = acme.feed()
    assert open_settings(feed, SEALER) == WebhookSettings(
        url="https://siem.example:8443/other", headers=SECRETS.headers, kinds=("audit", "coa"), outcomes=("failure",)
    )
    # Such a filter could match no row of the audit log.
    assert feed.sources == ["coa_requests"]
    with psycopg.connect(acme.owner_url) as connection:
        [(before, after)] = connection.execute(
            "SELECT before, after FROM audit_log WHERE action = 'feed.set'"
        ).fetchall()
    assert (before["outcomes"], after["outcomes"]) == ([], ["failure"])
    assert set(after) == {"url", "kinds", "outcomes", "timeout_seconds"}
    acme.do(service.update_feed, changes={}, reset=["outcomes", "headers", "kinds"], sealer=SEALER, now=utc_now())
    assert open_settings(acme.feed(), SEALER) == WebhookSettings(url="https://siem.example:8443/other")


def test_failing_feed_is_retried_at_once_after_an_update(acme: Tenancy):
    acme.add()
    later = utc_now() + timedelta(hours=1)
    with psycopg.connect(acme.owner_url) as connection:
        connection.execute("UPDATE feeds SET attempts = 9, next_attempt_at = %s, failing_since = now()", [later])
    now = utc_now()
    acme.do(service.update_feed, changes={"host": "198.51.100.2"}, sealer=SEALER, now=now)
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
        acme.do(service.update_feed, changes=changes, reset=reset, sealer=SEALER, now=utc_now())
    assert {mistake.place for mistake in getattr(told.value, "mistakes", [told.value])} == places
    assert "of-the-receiver" not in str(told.value)
    assert open_settings(acme.feed(), SEALER) == SECRETS
    with psycopg.connect(acme.owner_url) as connection:
        assert connection.execute("SELECT count(*) FROM audit_log WHERE action = 'feed.set'").fetchone() == (0,)


@pytest.mark.parametrize("headers", [{"reset": ["headers"]}, {}])
def test_new_server_requires_headers_again(acme: Tenancy, headers):
    acme.add(settings=SECRETS)
    new = {} if headers else {"headers": {"X-Key": "new"}}
    given = {"changes": {"url": "https://elsewhere.example/", **new}, "sealer": SEALER, "now": utc_now(), **headers}
    acme.do(service.update_feed, **given)
    assert open_settings(acme.feed(), SEALER).headers == new.get("headers", {})


def test_client_certificate_stays_when_other_settings_change(acme: Tenancy):
    mine = SyslogSettings(host="siem.example", client_certificate=MINE.certificate)
    acme.add(settings=mine, client_key=MINE.key)
    acme.do(service.update_feed, changes={"port": 16514}, sealer=SEALER, now=utc_now())
    assert open_settings(acme.feed(), SEALER).client_certificate == MINE.certificate


def test_waiting_rows_are_deleted_with_the_feed(acme: Tenancy):
    acme.add()
    now = utc_now()
    acme.do(service.replay_feed, since=now - timedelta(days=365), until=now, now=now)
    acme.do(service.delete_feed)
    with psycopg.connect(acme.owner_url) as connection:
        assert connection.execute("SELECT FROM feed_marks WHERE feed_id IS NOT NULL").fetchall() == []


def test_state_shows_progress(acme: Tenancy):
    acme.add(settings=type(NOWHERE)(host=NOWHERE.host, kinds=("authentication",)))
    assert acme.state() == "ok"
    acme.log("a", "b")
    assert acme.state() == "ok"
    with psycopg.connect(acme.owner_url) as connection:
        connection.execute("UPDATE feed_marks SET at = now() - interval '2 minutes'")
    assert acme.state() == "behind"
    acme.do(service.pause_feed)
    assert acme.state() == "paused"


@pytest.mark.parametrize("days", [-1, 0, 401])
def test_replay_of_an_invalid_period_is_rejected(acme: Tenancy, days: int):
    acme.add()
    now = utc_now()
    with pytest.raises(InvalidFeed):
        acme.do(service.replay_feed, since=now - timedelta(days=days), until=now, now=now)
