"""Feeds are added, shown and removed; every mistake is told at once, and nothing of one is stored."""

from datetime import timedelta

import psycopg
import pytest

from nac.clock import utc_now
from nac.errors import InvalidInput, SeveralMistakes
from nac.feeds import service
from nac.feeds.errors import FeedExists, FeedNotFound, InvalidFeed, TooManyFeeds
from nac.feeds.settings import SyslogSettings, WebhookSettings, mistakes_of
from tests.factories.certificates import SEALER
from tests.feeds.certificates import self_signed
from tests.feeds.conftest import NOWHERE, Tenancy

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
        (WebhookSettings(url="https://siem.example/", batch=0), "batch"),
        (WebhookSettings(url="https://siem.example/", batch=501), "batch"),
    ],
)
def test_setting_that_cannot_be_is_named(settings, place):
    assert [where for where, _ in mistakes_of(settings)] == [place]


@pytest.mark.parametrize(
    "settings",
    [
        GOOD,
        SyslogSettings(
            host="2001:db8::1", port=65535, app_name="a" * 48, severities={"coa": "err", "coa.failure": "crit"}
        ),
        SyslogSettings(host="siem.example.", hostname="n" * 255, enterprise=2**32 - 1, timeout_seconds=1),
        WebhookSettings(url="https://siem.example:8443/services?x=y", batch=500, timeout_seconds=10),
    ],
)
def test_settings_at_their_bounds_are_taken(settings):
    assert mistakes_of(settings) == []


@pytest.mark.parametrize(
    ("certificate", "key", "place"),
    [
        (MINE.certificate, self_signed("other").key, "client_key"),
        (MINE.certificate, "no PEM", "client_key"),
        ("no PEM", MINE.key, "client_certificate"),
        ("", MINE.key, "client_certificate"),
    ],
)
def test_certificate_and_key_must_be_a_pair(certificate, key, place):
    settings = SyslogSettings(host="siem.example", client_certificate=certificate)
    assert [where for where, _ in mistakes_of(settings, client_key=key)] == [place]


def test_every_mistake_is_told_and_nothing_is_stored(acme: Tenancy):
    with pytest.raises(SeveralMistakes) as told:
        acme.add("No Slug", SyslogSettings(host="", port=0, kinds=()))
    assert {mistake.place for mistake in told.value.mistakes} == {"name", "host", "port", "kinds"}
    assert listed(acme) == []


def listed(tenancy: Tenancy) -> list[str]:
    with psycopg.connect(tenancy.owner_url) as connection:
        return [slug for (slug,) in connection.execute("SELECT slug FROM feeds ORDER BY slug")]


def test_name_is_given_once_in_a_tenant(acme: Tenancy, other: Tenancy):
    acme.add()
    with pytest.raises(FeedExists):
        acme.add()
    other.add()


def test_tenant_has_a_bounded_number_of_feeds(acme: Tenancy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "FEEDS_MOST", 2)
    acme.add("a")
    acme.add("b")
    with pytest.raises(TooManyFeeds):
        acme.add("c")


def test_feed_of_another_tenant_is_not_there(acme: Tenancy, other: Tenancy):
    acme.add()
    with pytest.raises(FeedNotFound):
        other.feed()
    with pytest.raises(FeedNotFound):
        other.do(service.remove)


def test_every_change_is_in_the_audit_log_without_secret_or_address(acme: Tenancy):
    secret = acme.add(settings=WebhookSettings(url="https://siem.example/of-the-receiver")).secret
    acme.do(service.pause, because="maintenance")
    acme.do(service.resume, now=utc_now())
    acme.do(service.replay, since=utc_now() - timedelta(days=3), until=utc_now(), now=utc_now())
    acme.do(service.remove)
    with psycopg.connect(acme.owner_url) as connection:
        rows = connection.execute(
            "SELECT action, before::text, after::text FROM audit_log WHERE action LIKE 'feed.%' ORDER BY id"
        ).fetchall()
    assert [row[0] for row in rows] == ["feed.add", "feed.pause", "feed.resume", "feed.replay", "feed.remove"]
    assert secret is not None
    assert secret not in str(rows)
    assert "of-the-receiver" not in str(rows)


def test_what_waits_goes_with_its_feed(acme: Tenancy):
    acme.add()
    now = utc_now()
    acme.do(service.replay, since=now - timedelta(days=365), until=now, now=now)
    acme.do(service.remove)
    with psycopg.connect(acme.owner_url) as connection:
        assert connection.execute("SELECT FROM feed_marks WHERE feed_id IS NOT NULL").fetchall() == []


def test_state_tells_how_far_it_is(acme: Tenancy):
    acme.add(settings=type(NOWHERE)(host=NOWHERE.host, kinds=("authentication",)))
    assert acme.state() == "ok"
    acme.log("a", "b")
    assert acme.state() == "ok"
    with psycopg.connect(acme.owner_url) as connection:
        connection.execute("UPDATE feed_marks SET at = now() - interval '2 minutes'")
    assert acme.state() == "behind"
    acme.do(service.pause)
    assert acme.state() == "paused"


@pytest.mark.parametrize("days", [-1, 0, 401])
def test_replay_of_no_time_or_of_too_much_is_refused(acme: Tenancy, days: int):
    acme.add()
    now = utc_now()
    with pytest.raises(InvalidFeed):
        acme.do(service.replay, since=now - timedelta(days=days), until=now, now=now)


def test_secret_of_a_syslog_feed_is_not_made_here(acme: Tenancy):
    acme.add()
    with pytest.raises(InvalidInput, match="no webhook"):
        acme.do(service.rotate_secret, sealer=SEALER, keep=None, now=utc_now())
