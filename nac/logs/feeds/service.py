"""Service for feeds: create, update, test, pause, resume, replay and delete."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec
from sqlalchemy import insert
from sqlalchemy.orm import Session

from nac.core.audit.service import AuditRecorder
from nac.kit.advice import Advice
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, InvalidInput, MistakeCollector, NotFound, Unavailable
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import Sealer
from nac.kit.validation import is_https_address, require_slug
from nac.logs.events.event_values import EventTenant
from nac.logs.events.feed import build_feed_tested
from nac.logs.feeds import repository
from nac.logs.feeds.delivery import build_reach, build_sender
from nac.logs.feeds.event_sources import list_source_names
from nac.logs.feeds.repository import FeedBacklog
from nac.logs.feeds.sender import SendFailed
from nac.logs.feeds.settings import (
    AnyFeedSettings,
    SyslogSettings,
    WebhookSettings,
    find_mistakes,
    get_host,
    open_settings,
    parse_settings,
    seal_context,
    shorten_url,
    store_settings,
    visible_settings,
)
from nac.logs.feeds.webhook_sender import generate_secret
from nac.models import Feed, FeedMark


class InvalidFeed(InvalidInput):
    """The settings of the feed are not valid."""


class FeedNotFound(NotFound):
    """The feed does not exist."""


class FeedExists(AlreadyExists):
    """A feed with this name already exists."""


class TooManyFeeds(Conflict):
    """The tenant has reached the maximum number of feeds."""


class FeedUnreachable(Unavailable):
    """The feed's destination did not receive the events."""


class ReplayUnderWay(Conflict):
    """A replay of the feed is already running."""


MAX_FEEDS = 20
MAX_REPLAY_DAYS = 400
_BEHIND_AFTER = timedelta(minutes=1)
_MAX_ROW_ID = 2**63 - 1
_HEADERS_REMEDY = "Set the headers for the new server, or reset the headers."
_record: AuditRecorder[Feed] = AuditRecorder("feed", lambda feed: feed.slug)

FeedState = Literal["ok", "behind", "failing", "paused"]


@dataclass(frozen=True, slots=True)
class CreatedFeed:
    feed: Feed
    # New secret of a webhook, which cannot be read later; None for syslog.
    secret: str | None


def create_feed(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    settings: AnyFeedSettings,
    client_key: str = "",
    sealer: Sealer,
    reach: OutboundReach,
) -> CreatedFeed:
    """Create a feed that sends new events. Raises InvalidFeed or SeveralMistakes, FeedExists, TooManyFeeds."""
    mistakes = MistakeCollector()
    with mistakes.noted():
        require_slug(slug, place="name")
    _collect_mistakes(mistakes, settings, client_key)
    mistakes.refuse()
    _require_reach(settings, reach, tenant_id)
    if repository.get_by_slug(session, tenant_id, slug) is not None:
        raise FeedExists(
            f"Feed {slug!r} already exists.", place="name", remedy="Remove the existing feed, or use another name."
        )
    if repository.count_feeds(session, tenant_id) >= MAX_FEEDS:
        raise TooManyFeeds(f"The tenant has {MAX_FEEDS} feeds, the maximum.", remedy="Remove a feed first.")
    secret = generate_secret() if isinstance(settings, WebhookSettings) else None
    feed_id, kept = uuid4(), secret or client_key
    feed = Feed(
        id=feed_id,
        tenant_id=tenant_id,
        slug=slug,
        kind="webhook" if isinstance(settings, WebhookSettings) else "syslog",
        sources=list_source_names(settings.kinds, settings.outcomes),
        secret_sealed=sealer.seal(kept.encode(), seal_context(tenant_id, feed_id)) if kept else None,
    )
    store_settings(feed, settings, sealer)
    session.add(feed)
    session.flush()
    _record(session, actor, feed, "add", after=_audit_values(feed))
    return CreatedFeed(feed, secret)


def require_valid_feed(feed: Feed, sealer: Sealer) -> None:
    """Check a feed from a tenant file. Raises InvalidFeed or SeveralMistakes."""
    try:
        settings = open_settings(feed, sealer)
    except (KeyError, ValueError) as exc:
        raise InvalidFeed(f"{exc}.", place="settings", remedy="For the settings, see docs/how-to/feeds.md.") from exc
    mistakes = MistakeCollector()
    with mistakes.noted():
        require_slug(feed.slug, place="name")
    _collect_mistakes(mistakes, settings, _open_client_key(feed, sealer))
    mistakes.refuse()
    if feed.sources != list_source_names(settings.kinds, settings.outcomes):
        raise InvalidFeed("The log sources of the feed do not match its kinds and outcomes.", place="sources")


def _open_client_key(feed: Feed, sealer: Sealer) -> str:
    if feed.kind == "webhook" or feed.secret_sealed is None:
        return ""
    return sealer.open(feed.secret_sealed, seal_context(feed.tenant_id, feed.id)).decode()


def _collect_mistakes(mistakes: MistakeCollector, settings: AnyFeedSettings, client_key: str) -> None:
    for place, what in find_mistakes(settings, client_key=client_key):
        with mistakes.noted():
            raise InvalidFeed(f"{what}.", place=place, remedy="For the settings, see docs/how-to/feeds.md.")


def _require_reach(settings: AnyFeedSettings, reach: OutboundReach, tenant_id: TenantId) -> None:
    """Check that the feed may connect to its host, if the host is an IP address.

    For a host name, the sender makes this check after it has resolved the name.
    """
    refusal = build_reach(settings, reach=reach, tenant_id=tenant_id).find_literal_refusal(get_host(settings))
    if refusal is not None:
        place = "url" if isinstance(settings, WebhookSettings) else "host"
        raise InvalidFeed(f"{refusal.why}.", place=place, remedy=refusal.remedy)


def _audit_values(feed: Feed) -> dict[str, object]:
    return {"kind": feed.kind, **visible_settings(feed)}


def update_feed(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    changes: Mapping[str, Any],
    reset: Sequence[str] = (),
    sealer: Sealer,
    reach: OutboundReach,
    now: datetime,
) -> Feed:
    """Change the settings in `changes`, and reset the settings in `reset` to their defaults.

    The feed immediately sends waiting events with the new settings. If the URL changes to another server, the caller
    must also set or reset the headers, because they may contain keys. Raises InvalidFeed or SeveralMistakes.
    """
    if not (changes or reset):
        raise InvalidFeed(
            "No change is specified.",
            place="settings",
            remedy="Name at least one setting. `feed show` lists the settings.",
        )
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    before = open_settings(feed, sealer)
    settings, mistakes = _apply_changes(before, changes, reset), MistakeCollector()
    _collect_mistakes(mistakes, settings, _open_client_key(feed, sealer))
    if isinstance(settings, WebhookSettings) and isinstance(before, WebhookSettings):
        # Invalid URLs were reported above.
        known = is_https_address(settings.url)
        moves = known and shorten_url(settings.url).split("/")[:3] != shorten_url(before.url).split("/")[:3]
        if moves and settings.headers and "headers" not in changes:
            with mistakes.noted():
                raise InvalidFeed(
                    "The URL has a new server, but the headers are for the previous server.",
                    place="headers",
                    remedy=_HEADERS_REMEDY,
                )
    mistakes.refuse()
    if settings == before:
        return feed
    if (get_host(settings), settings.networks) != (get_host(before), before.networks):
        _require_reach(settings, reach, tenant_id)
    audited = _audit_values(feed)
    store_settings(feed, settings, sealer)
    feed.sources = list_source_names(settings.kinds, settings.outcomes)
    feed.attempts, feed.next_attempt_at = 0, now
    session.flush()
    names = (
        {name for name, value in _audit_values(feed).items() if audited.get(name) != value}
        | changes.keys()
        | set(reset)
    )
    after = {name: value for name, value in _audit_values(feed).items() if name in names}
    _record(session, actor, feed, "set", before={name: audited.get(name) for name in after}, after=after)
    return feed


def rename_feed(session: Session, *, actor: str, tenant_id: TenantId, slug: str, new_slug: str) -> Feed:
    """Rename a feed. The renamed feed still sends its waiting events. Raises InvalidFeed or FeedExists."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    if new_slug == slug:
        return feed
    require_slug(new_slug, place="name")
    if repository.get_by_slug(session, tenant_id, new_slug) is not None:
        raise FeedExists(f"Feed {new_slug!r} already exists.", place="name", remedy="Use another name.")
    feed.slug = new_slug
    session.flush()
    _record(session, actor, feed, "rename", before={"name": slug}, after={"name": new_slug})
    return feed


def _apply_changes(before: AnyFeedSettings, changes: Mapping[str, Any], reset: Sequence[str]) -> AnyFeedSettings:
    fields = {field.name: field for field in msgspec.structs.fields(before)}
    mistakes = MistakeCollector()
    for name in (*changes, *reset):
        with mistakes.noted():
            if name not in fields or (name in reset and fields[name].required) or name == "client_certificate":
                raise InvalidFeed(
                    f"Setting {name} of this feed cannot be {'reset' if name in reset else 'set'}.",
                    place=name,
                    remedy="See `feed show`. Set certificate and key with `feed rotate-secret`.",
                )
    mistakes.refuse()
    usual = {name: _default_value(fields[name]) for name in reset}
    return msgspec.structs.replace(before, **usual | dict(changes))


def _default_value(field: msgspec.structs.FieldInfo) -> Any:  # noqa: ANN401 -- of the setting's type
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def list_feeds(session: Session, *, tenant_id: TenantId) -> Sequence[Feed]:
    return repository.list_all(session, tenant_id)


def list_page(
    session: Session, *, tenant_id: TenantId, span: PageSpan, text: str = "", kind: str = ""
) -> Sequence[Feed]:
    """List one page of feeds. `text` filters by a part of the name."""
    return repository.list_page(session, tenant_id, span=span, text=text, kind=kind)


def require_feed(session: Session, *, tenant_id: TenantId, slug: str, lock: bool = False) -> Feed:
    feed = repository.get_by_slug(session, tenant_id, slug, lock=lock)
    if feed is None:
        raise FeedNotFound(f"Unknown feed {slug!r}.", remedy=Advice("List feeds", "listFeeds"))
    return feed


def get_backlog(session: Session, feed: Feed) -> FeedBacklog:
    return repository.get_backlog(session, feed)


def get_backlogs(session: Session, *, tenant_id: TenantId, feed_ids: Sequence[UUID]) -> dict[UUID, FeedBacklog]:
    return repository.get_backlogs(session, tenant_id, feed_ids)


def get_state(feed: Feed, waiting: FeedBacklog, *, now: datetime) -> FeedState:
    if feed.status == "paused":
        return "paused"
    if feed.failing_since is not None:
        return "failing"
    return "behind" if waiting.since is not None and now - waiting.since > _BEHIND_AFTER else "ok"


def send_test_event(feed: Feed, *, tenant_slug: str, reach: OutboundReach, sealer: Sealer, now: datetime) -> str:
    """Send a test event to the feed's destination immediately. Returns the id of the event. Raises FeedUnreachable."""
    event = build_feed_tested(feed.slug, now=now, tenant=EventTenant(str(feed.tenant_id), tenant_slug))

    async def send() -> None:
        sender = build_sender(feed, reach=reach, sealer=sealer, now=now)
        try:
            await sender.send([event])
            await sender.close()
        finally:
            await sender.drop()

    try:
        asyncio.run(send())
    except SendFailed as exc:
        raise FeedUnreachable(str(exc), place=feed.slug) from exc
    return event.event.id


def pause_feed(session: Session, *, actor: str, tenant_id: TenantId, slug: str, because: str = "") -> Feed:
    """Pause the feed. Admit keeps waiting events for a week."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    feed.status, feed.paused_because = "paused", because
    session.flush()
    _record(session, actor, feed, "pause", after={"because": because})
    return feed


def resume_feed(session: Session, *, actor: str, tenant_id: TenantId, slug: str, now: datetime) -> Feed:
    """Resume a paused feed, or retry a failing feed immediately."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    feed.status, feed.paused_because, feed.attempts, feed.next_attempt_at = "active", "", 0, now
    session.flush()
    _record(session, actor, feed, "resume")
    return feed


def replay_feed(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, since: datetime, until: datetime, now: datetime
) -> Feed:
    """Send the events of a period again, with the same ids, after the waiting events."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    until = min(until, now)
    if since >= until:
        raise InvalidFeed("The period of the replay is empty.", place="from", remedy="Set a start in the past.")
    if until - since > timedelta(days=MAX_REPLAY_DAYS):
        raise InvalidFeed(
            f"The period of the replay exceeds {MAX_REPLAY_DAYS} days.", place="from", remedy="Set a later start."
        )
    if repository.get_backlog(session, feed).replays:
        raise ReplayUnderWay(
            "A replay is already running.", place=slug, remedy="Wait until `feed show` reports no replay (`replays`)."
        )
    session.execute(insert(FeedMark), list(_iter_mark_ranges(feed, since, until)))
    _record(session, actor, feed, "replay", after={"from": since.isoformat(), "until": until.isoformat()})
    return feed


def _iter_mark_ranges(feed: Feed, since: datetime, until: datetime) -> Iterator[dict[str, object]]:
    """Yield the marks of a replay day by day, so that events of different sources are roughly in order."""
    while since < until:
        end = min(since + timedelta(days=1), until)
        for source in feed.sources:
            yield {
                "tenant_id": feed.tenant_id,
                "feed_id": feed.id,
                "source": source,
                "first_at": since,
                # End one microsecond before the next range begins.
                "last_at": end if end == until else end - timedelta(microseconds=1),
                "first_row": 0,
                "last_row": _MAX_ROW_ID,
            }
        since = end


def rotate_secret(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, sealer: Sealer, keep: timedelta, now: datetime
) -> str:
    """Create a new secret for a webhook. Returns the secret, which cannot be read later.

    During the time `keep`, Admit signs each request with the old secret, too.
    """
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    if feed.kind != "webhook":
        raise InvalidFeed("The feed is not a webhook.", place="name", remedy="Set the new client certificate and key.")
    secret = generate_secret()
    feed.former_secret_sealed, feed.former_secret_until = (feed.secret_sealed, now + keep) if keep else (None, None)
    feed.secret_sealed = sealer.seal(secret.encode(), seal_context(tenant_id, feed.id))
    session.flush()
    _record(session, actor, feed, "rotate-secret")
    return secret


def update_client_certificate(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, certificate: str, key: str, sealer: Sealer
) -> Feed:
    """Change the client certificate and key of a syslog feed."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    settings = parse_settings(feed.kind, feed.settings)
    if not isinstance(settings, SyslogSettings):
        raise InvalidFeed(
            "A webhook has no client certificate.", place="name", remedy="Omit the certificate and the key."
        )
    settings = msgspec.structs.replace(settings, client_certificate=certificate)
    mistakes = MistakeCollector()
    _collect_mistakes(mistakes, settings, key)
    mistakes.refuse()
    store_settings(feed, settings, sealer)
    feed.secret_sealed = sealer.seal(key.encode(), seal_context(tenant_id, feed.id))
    session.flush()
    _record(session, actor, feed, "rotate-secret")
    return feed


def delete_feed(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> None:
    """Delete the feed and its waiting events."""
    feed = require_feed(session, tenant_id=tenant_id, slug=slug, lock=True)
    session.delete(feed)
    session.flush()
    _record(session, actor, feed, "remove", before=_audit_values(feed))
