"""Service for feeds: add, change, test, pause, resume, replay, remove."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

import msgspec
from sqlalchemy import insert
from sqlalchemy.orm import Session

from nac.audit.service import Recorder
from nac.db.orders import Span
from nac.errors import Mistakes
from nac.events.feed import tested
from nac.events.texts import Tenant
from nac.feeds import repository, sealed
from nac.feeds.errors import FeedExists, FeedNotFound, FeedUnreachable, InvalidFeed, ReplayUnderWay, TooManyFeeds
from nac.feeds.repository import Backlog
from nac.feeds.sealed import context_of
from nac.feeds.senders import make_sender, reach_of
from nac.feeds.sending import SendFailed
from nac.feeds.settings import Settings, SyslogSettings, WebhookSettings, host_of, mistakes_of, stored
from nac.feeds.signature import new_secret
from nac.feeds.sources import sources_of
from nac.ids import TenantId
from nac.models import Feed, FeedMark
from nac.outbound.reach import OutboundReach
from nac.secrets import Sealer
from nac.validation import is_https_address, require_slug

FEEDS_MOST = 20
REPLAY_DAYS_MOST = 400
_BEHIND_AFTER = timedelta(minutes=1)
_ROWS_MOST = 2**63 - 1
_HEADERS_REMEDY = "Set the headers for the new server, or reset them."
_record: Recorder[Feed] = Recorder("feed", lambda feed: feed.slug)

State = Literal["ok", "behind", "failing", "paused"]


@dataclass(frozen=True, slots=True)
class Added:
    feed: Feed
    # Secret of a webhook, the only copy.
    secret: str | None


def add(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    settings: Settings,
    client_key: str = "",
    sealer: Sealer,
    reach: OutboundReach,
) -> Added:
    """Create a feed that sends events from now on. Raises InvalidFeed or SeveralMistakes, FeedExists, TooManyFeeds."""
    mistakes = Mistakes()
    with mistakes.noted():
        require_slug(slug, place="name")
    _noted(mistakes, settings, client_key)
    mistakes.refuse()
    _require_reach(settings, reach, tenant_id)
    if repository.get_by_slug(session, tenant_id, slug) is not None:
        raise FeedExists(f"Feed {slug!r} already exists.", place="name", remedy="Remove it, or use another name.")
    if repository.count(session, tenant_id) >= FEEDS_MOST:
        raise TooManyFeeds(f"The tenant has {FEEDS_MOST} feeds, the maximum.", remedy="Remove a feed first.")
    secret = new_secret() if isinstance(settings, WebhookSettings) else None
    feed_id, kept = uuid4(), secret or client_key
    feed = Feed(
        id=feed_id,
        tenant_id=tenant_id,
        slug=slug,
        kind="webhook" if isinstance(settings, WebhookSettings) else "syslog",
        sources=sources_of(settings.kinds, settings.outcomes),
        secret_sealed=sealer.seal(kept.encode(), context_of(tenant_id, feed_id)) if kept else None,
    )
    sealed.put(feed, settings, sealer)
    session.add(feed)
    session.flush()
    _record(session, actor, feed, "add", after=_told(feed))
    return Added(feed, secret)


def check_feed(feed: Feed, sealer: Sealer) -> None:
    """Check an imported feed. Raises InvalidFeed or SeveralMistakes."""
    try:
        settings = sealed.opened(feed, sealer)
    except (KeyError, ValueError) as exc:
        raise InvalidFeed(f"{exc}.", place="settings", remedy="See docs/how-to/feeds.md.") from exc
    mistakes = Mistakes()
    with mistakes.noted():
        require_slug(feed.slug, place="name")
    _noted(mistakes, settings, _client_key(feed, sealer))
    mistakes.refuse()
    if feed.sources != sources_of(settings.kinds, settings.outcomes):
        raise InvalidFeed("The sources do not match the kinds and outcomes.", place="sources")


def _client_key(feed: Feed, sealer: Sealer) -> str:
    if feed.kind == "webhook" or feed.secret_sealed is None:
        return ""
    return sealer.open(feed.secret_sealed, context_of(feed.tenant_id, feed.id)).decode()


def _noted(mistakes: Mistakes, settings: Settings, client_key: str) -> None:
    for place, what in mistakes_of(settings, client_key=client_key):
        with mistakes.noted():
            raise InvalidFeed(f"{what}.", place=place, remedy="See docs/how-to/feeds.md.")


def _require_reach(settings: Settings, reach: OutboundReach, tenant_id: TenantId) -> None:
    """Check a literal address like the sender; names are resolved only by the sender."""
    refusal = reach_of(settings, reach=reach, tenant_id=tenant_id).find_literal_refusal(host_of(settings))
    if refusal is not None:
        place = "url" if isinstance(settings, WebhookSettings) else "host"
        raise InvalidFeed(f"{refusal.why}.", place=place, remedy=refusal.remedy)


def _told(feed: Feed) -> dict[str, object]:
    """Return the feed for the audit log."""
    return {"kind": feed.kind, **sealed.shown(feed)}


def change(
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
    """Change settings by name, and reset those in `reset` to their defaults. Waiting events are sent with the new
    settings at once.

    Raises InvalidFeed or SeveralMistakes. Headers must be set again for another server.
    """
    if not (changes or reset):
        raise InvalidFeed(
            "No change is specified.", place="settings", remedy="Name at least one setting. `feed show` lists them."
        )
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    before = sealed.opened(feed, sealer)
    settings, mistakes = _changed(before, changes, reset), Mistakes()
    _noted(mistakes, settings, _client_key(feed, sealer))
    if isinstance(settings, WebhookSettings) and isinstance(before, WebhookSettings):
        # Invalid URLs are reported above.
        known = is_https_address(settings.url)
        moves = known and sealed.short_url(settings.url).split("/")[:3] != sealed.short_url(before.url).split("/")[:3]
        if moves and settings.headers and "headers" not in changes:
            with mistakes.noted():
                raise InvalidFeed("The headers belong to the former server.", place="headers", remedy=_HEADERS_REMEDY)
    mistakes.refuse()
    if settings == before:
        return feed
    if (host_of(settings), settings.networks) != (host_of(before), before.networks):
        _require_reach(settings, reach, tenant_id)
    audited = _told(feed)
    sealed.put(feed, settings, sealer)
    feed.sources = sources_of(settings.kinds, settings.outcomes)
    feed.attempts, feed.next_attempt_at = 0, now
    session.flush()
    names = {name for name, value in _told(feed).items() if audited.get(name) != value} | changes.keys() | set(reset)
    after = {name: value for name, value in _told(feed).items() if name in names}
    _record(session, actor, feed, "set", before={name: audited.get(name) for name in after}, after=after)
    return feed


def rename(session: Session, *, actor: str, tenant_id: TenantId, slug: str, new_slug: str) -> Feed:
    """Rename a feed; waiting events are not affected. Raises InvalidFeed or FeedExists."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    if new_slug == slug:
        return feed
    require_slug(new_slug, place="name")
    if repository.get_by_slug(session, tenant_id, new_slug) is not None:
        raise FeedExists(f"Feed {new_slug!r} already exists.", place="name", remedy="Use another name.")
    feed.slug = new_slug
    session.flush()
    _record(session, actor, feed, "rename", before={"name": slug}, after={"name": new_slug})
    return feed


def _changed(before: Settings, changes: Mapping[str, Any], reset: Sequence[str]) -> Settings:
    fields = {field.name: field for field in msgspec.structs.fields(before)}
    mistakes = Mistakes()
    for name in (*changes, *reset):
        with mistakes.noted():
            if name not in fields or (name in reset and fields[name].required) or name == "client_certificate":
                raise InvalidFeed(
                    f"Setting {name} of this feed cannot be {'reset' if name in reset else 'set'}.",
                    place=name,
                    remedy="See `feed show`. Set certificate and key with `feed rotate-secret`.",
                )
    mistakes.refuse()
    usual = {name: _usual(fields[name]) for name in reset}
    return msgspec.structs.replace(before, **usual | dict(changes))


def _usual(field: msgspec.structs.FieldInfo) -> Any:  # noqa: ANN401 -- of the setting's type
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def list_feeds(session: Session, *, tenant_id: TenantId) -> Sequence[Feed]:
    return repository.list_all(session, tenant_id)


def list_page(session: Session, *, tenant_id: TenantId, span: Span, text: str = "", kind: str = "") -> Sequence[Feed]:
    """List one page; `text` is a part of the name."""
    return repository.list_page(session, tenant_id, span=span, text=text, kind=kind)


def require(session: Session, *, tenant_id: TenantId, slug: str, lock: bool = False) -> Feed:
    feed = repository.get_by_slug(session, tenant_id, slug, lock=lock)
    if feed is None:
        raise FeedNotFound(f"Unknown feed {slug!r}.", remedy="List feeds: ./admit feed list")
    return feed


def backlog(session: Session, feed: Feed) -> Backlog:
    return repository.backlog(session, feed)


def state_of(feed: Feed, waiting: Backlog, *, now: datetime) -> State:
    if feed.status == "paused":
        return "paused"
    if feed.failing_since is not None:
        return "failing"
    return "behind" if waiting.since is not None and now - waiting.since > _BEHIND_AFTER else "ok"


def send_test(feed: Feed, *, tenant_slug: str, reach: OutboundReach, sealer: Sealer, now: datetime) -> str:
    """Send a test event at once, over the same path. Returns its id. Raises FeedUnreachable."""
    event = tested(feed.slug, now=now, tenant=Tenant(str(feed.tenant_id), tenant_slug))

    async def send() -> None:
        sender = make_sender(feed, reach=reach, sealer=sealer, now=now)
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


def pause(session: Session, *, actor: str, tenant_id: TenantId, slug: str, because: str = "") -> Feed:
    """Pause the feed. Waiting events are kept for a week."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    feed.status, feed.paused_because = "paused", because
    session.flush()
    _record(session, actor, feed, "pause", after={"because": because})
    return feed


def resume(session: Session, *, actor: str, tenant_id: TenantId, slug: str, now: datetime) -> Feed:
    """Resume the feed at once, also after failures."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    feed.status, feed.paused_because, feed.attempts, feed.next_attempt_at = "active", "", 0, now
    session.flush()
    _record(session, actor, feed, "resume")
    return feed


def replay(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, since: datetime, until: datetime, now: datetime
) -> Feed:
    """Send the logged events of a period again, after those that wait. Their ids stay the same."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    until = min(until, now)
    if since >= until:
        raise InvalidFeed("The period is empty.", place="from", remedy="Use a time in the past.")
    if until - since > timedelta(days=REPLAY_DAYS_MOST):
        raise InvalidFeed(
            f"The period is longer than {REPLAY_DAYS_MOST} days.", place="from", remedy="Use a later time."
        )
    if repository.backlog(session, feed).replays:
        raise ReplayUnderWay(
            "A replay is already running.", place=slug, remedy="Wait until `feed show` has none (`replays`)."
        )
    session.execute(insert(FeedMark), list(_ranges(feed, since, until)))
    _record(session, actor, feed, "replay", after={"from": since.isoformat(), "until": until.isoformat()})
    return feed


def _ranges(feed: Feed, since: datetime, until: datetime) -> Iterator[dict[str, object]]:
    """Yield ranges day by day, so that events of different kinds are roughly in order."""
    while since < until:
        end = min(since + timedelta(days=1), until)
        for source in feed.sources:
            yield {
                "tenant_id": feed.tenant_id,
                "feed_id": feed.id,
                "source": source,
                "first_at": since,
                # The next range begins one microsecond later.
                "last_at": end if end == until else end - timedelta(microseconds=1),
                "first_row": 0,
                "last_row": _ROWS_MOST,
            }
        since = end


def rotate_secret(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, sealer: Sealer, keep: timedelta, now: datetime
) -> str:
    """Create a new secret for a webhook and return the only copy. For the time `keep` the old one signs, too."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    if feed.kind != "webhook":
        raise InvalidFeed("The feed is not a webhook.", place="name", remedy="Set the new client certificate and key.")
    secret = new_secret()
    feed.former_secret_sealed, feed.former_secret_until = (feed.secret_sealed, now + keep) if keep else (None, None)
    feed.secret_sealed = sealer.seal(secret.encode(), context_of(tenant_id, feed.id))
    session.flush()
    _record(session, actor, feed, "rotate-secret")
    return secret


def change_client_certificate(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, certificate: str, key: str, sealer: Sealer
) -> Feed:
    """Change the client certificate of a syslog feed."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    settings = stored(feed.kind, feed.settings)
    if not isinstance(settings, SyslogSettings):
        raise InvalidFeed("A webhook has no client certificate.", place="name", remedy="Leave out certificate and key.")
    settings = msgspec.structs.replace(settings, client_certificate=certificate)
    mistakes = Mistakes()
    _noted(mistakes, settings, key)
    mistakes.refuse()
    sealed.put(feed, settings, sealer)
    feed.secret_sealed = sealer.seal(key.encode(), context_of(tenant_id, feed.id))
    session.flush()
    _record(session, actor, feed, "rotate-secret")
    return feed


def remove(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> None:
    """Delete the feed and its waiting events."""
    feed = require(session, tenant_id=tenant_id, slug=slug, lock=True)
    session.delete(feed)
    session.flush()
    _record(session, actor, feed, "remove", before=_told(feed))
