"""Rows for feeds."""

from datetime import datetime

from sqlalchemy.orm import Session

from cli.output import Row
from nac.logs.feeds import sealed_settings
from nac.logs.feeds import service as feeds
from nac.logs.feeds.settings import SyslogSettings, parse_settings
from nac.models import Feed

_PEM = ("ca_certificate", "client_certificate")


def feed_row(session: Session, feed: Feed, *, now: datetime) -> Row:
    """Row of a list."""
    waiting = feeds.get_backlog(session, feed)
    return {
        "name": feed.slug,
        "kind": feed.kind,
        "destination": _destination(feed),
        "state": feeds.get_state(feed, waiting, now=now),
        "behind_events": waiting.events,
        "behind_since": waiting.since and waiting.since.isoformat(),
        "delivered": feed.delivered,
        "lost": feed.lost,
    }


def whole_feed_row(session: Session, feed: Feed, *, now: datetime) -> Row:
    settings = {
        name: "(PEM)" if value and name in _PEM else value
        for name, value in sealed_settings.visible_settings(feed).items()
    }
    return {
        **feed_row(session, feed, now=now),
        "replays": feeds.get_backlog(session, feed).replays,
        "paused_because": feed.paused_because,
        "failing_since": feed.failing_since and feed.failing_since.isoformat(),
        "failure": feed.failure,
        "attempts": feed.attempts,
        "next_attempt_at": feed.next_attempt_at.isoformat() if feed.failing_since else None,
        "at_once": feed.at_once,
        "delivered_at": feed.delivered_at and feed.delivered_at.isoformat(),
        "former_secret_until": feed.former_secret_until and feed.former_secret_until.isoformat(),
        "settings": settings,
    }


def _destination(feed: Feed) -> str:
    settings = parse_settings(feed.kind, sealed_settings.visible_settings(feed))
    return f"{settings.host}:{settings.port}" if isinstance(settings, SyslogSettings) else settings.url
