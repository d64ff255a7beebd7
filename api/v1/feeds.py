"""Where a tenant's events are sent: syslog servers and webhooks."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.server_tests import server_test
from api.state import settings_of, signing_of
from api.v1.feed_settings import FeedSettingsUpdate, SyslogFeedSettings, WebhookFeedSettings, given_settings
from api.v1.inputs import Input, Slug
from api.v1.moments import PastMoment
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.clock import utc_now
from nac.feeds import sealed
from nac.feeds import service as feeds
from nac.feeds.errors import FeedUnreachable, InvalidFeed
from nac.feeds.repository import ORDERS
from nac.feeds.rights import READ_BY
from nac.feeds.settings import SyslogSettings, WebhookSettings, stored
from nac.models import Feed as FeedRow
from nac.tenants import service as tenants

router = APIRouter(prefix="/tenants/{tenant}/feeds", tags=["feeds"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.FEED_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.FEED_MANAGE, Effect.RECORDS))]
Leads = Annotated[
    Access,
    Depends(
        ChangesTenant(Permission.FEED_MANAGE, Effect.DISCLOSURE, Effect.CONNECTION, also=frozenset(READ_BY.values()))
    ),
]
Tries = Annotated[Access, Depends(ReadsTenant(Permission.FEED_MANAGE, Effect.CONNECTION))]
_Name = Annotated[str, Path(max_length=63)]
_Pem = Annotated[str, Field(max_length=100_000)]
_PEM = ("ca_certificate", "client_certificate")
# What people say of a feed; all else is what becomes of it.
_CHOSEN = {"name", "kind", "destination", "paused_because", "former_secret_until", "settings"}


class Feed(Observed):
    name: str = Field(description="Name, for people.")
    kind: Literal["syslog", "webhook"] = Field(description="How events are sent.")
    destination: str = Field(description="Host and port, or the address without what is behind its host.")
    state: Literal["ok", "behind", "failing", "paused"] = Field(
        description="behind: events wait. failing: the receiver takes nothing."
    )
    behind_events: int = Field(description="Events that wait to be delivered.")
    behind_since: datetime | None = Field(description="Since when events wait.")
    delivered: int = Field(description="How many events were delivered.")
    lost: int = Field(description="Events that were not delivered in time and are not tried any more.")

    def observed(self) -> set[str]:
        # That it is paused somebody has said, what it is else is seen.
        chosen = _CHOSEN | {"state"} if self.state == "paused" else _CHOSEN
        return set(type(self).model_fields) - chosen


class FeedDetail(Feed):
    replays: bool = Field(description="Whether events of before are being sent again.")
    paused_because: str = Field(description='Why it is paused; "" where it is not.')
    failing_since: datetime | None = Field(description="Since when the receiver takes nothing.")
    failure: str = Field(description='Why the last attempt failed; "" where it did not.')
    attempts: int = Field(description="Attempts since the last that succeeded.")
    next_attempt_at: datetime | None = Field(description="When the next attempt is made; null where it does not fail.")
    at_once: int | None = Field(
        description="Events that a batch may have since the receiver took too long for more; null for as many as ever."
    )
    delivered_at: datetime | None = Field(description="When the receiver took something last.")
    former_secret_until: datetime | None = Field(description="Until when the former secret signs, too.")
    settings: dict[str, Any] = Field(
        description='As they were given; "(sealed)" and "(PEM)" stand for what is not shown.'
    )


class CreatedFeed(FeedDetail):
    secret: str | None = Field(description="Of a webhook: signs what is sent, and is in this answer alone.")


class WebhookFeedInput(Input):
    kind: Literal["webhook"] = Field(description="Of which kind it is.")
    name: Slug = Field(examples=["siem"], description="Name, for people.")
    settings: WebhookFeedSettings = Field(description="The settings.")


class SyslogFeedInput(Input):
    kind: Literal["syslog"] = Field(description="Of which kind it is.")
    name: Slug = Field(examples=["siem"], description="Name, for people.")
    settings: SyslogFeedSettings = Field(description="The settings.")
    client_key: _Pem = Field("", description="PEM of the key of `client_certificate`; sealed, and never shown.")


class FeedPause(Input):
    because: str = Field("", max_length=1_000, description="Why, for whoever finds it paused.")


class FeedReplay(Input):
    since: PastMoment = Field(description="From when on.")
    until: PastMoment | None = Field(None, description="The end, not included; null: now.")


class FeedSecretRotation(Input):
    keep_seconds: int = Field(86_400, ge=0, le=30 * 86_400, description="So many seconds the former secret signs, too.")
    client_certificate: _Pem = Field("", description="Of syslog: PEM of the new certificate, with its chain.")
    client_key: _Pem = Field("", description="PEM of the key of `client_certificate`; sealed, and never shown.")


class RotatedFeedSecret(BaseModel):
    secret: str | None = Field(description="Of a webhook: signs what is sent, and is in this answer alone.")


class FeedTestResult(BaseModel):
    delivered: bool = Field(description="Whether the destination accepted the event.")
    sent: str = Field(description='Id of the event that was sent; "" where it was not delivered.')
    failure: str = Field(description='Why the event was not delivered; "" where it was.')


@router.get("", operation_id="listFeeds")
def list_feeds(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
    kind: Literal["syslog", "webhook"] | None = None,
) -> Page[Feed]:
    """How far each has come; there are 20 at most."""
    with access.read() as session:
        rows = feeds.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "")
        return paging.ordered(rows, lambda row: Feed(**_short(session, row)))


@router.post("", status_code=201, operation_id="createFeed")
def create_feed(
    request: Request, access: Leads, body: Annotated[WebhookFeedInput | SyslogFeedInput, Field(discriminator="kind")]
) -> CreatedFeed:
    """From now on its events are sent. That takes the permissions to read them as well."""
    given = given_settings(body.settings)
    settings = WebhookSettings(**given) if body.kind == "webhook" else SyslogSettings(**given)
    with access.change() as change:
        added = feeds.add(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            slug=body.name,
            settings=settings,
            client_key=body.client_key if body.kind == "syslog" else "",
            sealer=signing_of(request).sealer,
            reach=settings_of(request).outbound_reach,
        )
        _require_to_read(access, added.feed)
        change.session.refresh(added.feed)
        change.located(added.feed.slug)
        return change.answer(CreatedFeed(**_whole(change.session, added.feed), secret=added.secret))


@router.get("/{feed}", operation_id="getFeed")
def get_feed(access: Reads, feed: _Name) -> FeedDetail:
    """Its settings, how far it is, and why it fails where it does."""
    with access.read() as session:
        row = feeds.require(session, tenant_id=access.tenant_id, slug=feed)
        return access.shown(FeedDetail(**_whole(session, row)))


@router.patch("/{feed}", operation_id="updateFeed")
def update_feed(request: Request, access: Leads, feed: _Name, body: FeedSettingsUpdate) -> FeedDetail:
    """What is left out stays as it is, null is as usual again. What waits is sent by the new settings, at once. Other
    settings than the name take the permissions to read what is sent as well."""
    given = given_settings(body)
    name = given.pop("name", None)
    reset = [name for name, value in given.items() if value is None]
    with access.change() as change:
        _require_match(change, access, feed)
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
        if name is not None:
            feed = feeds.rename(change.session, **who, slug=feed, new_slug=name).slug
        if given:
            row = feeds.change(
                change.session,
                **who,
                slug=feed,
                changes={name: value for name, value in given.items() if value is not None},
                reset=reset,
                sealer=signing_of(request).sealer,
                reach=settings_of(request).outbound_reach,
                now=utc_now(),
            )
            _require_to_read(access, row)
        return _answer(change, feeds.require(change.session, tenant_id=access.tenant_id, slug=feed))


@router.delete("/{feed}", status_code=204, operation_id="deleteFeed")
def delete_feed(access: Changes, feed: _Name) -> None:
    """Nothing is sent there any more; what waits is forgotten."""
    with access.change() as change:
        _require_match(change, access, feed)
        feeds.remove(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed)
        change.answer_nothing()


@router.post("/{feed}/test", operation_id="testFeed")
def test_feed(request: Request, access: Tries, feed: _Name) -> FeedTestResult:
    """Send an event at once that says it is a test; a paused feed is tried, too. A failed delivery is a result. A few
    tests may run at a time (429)."""
    with access.read() as session:
        row = feeds.require(session, tenant_id=access.tenant_id, slug=feed)
        slug = tenants.require_tenant(session, tenant_id=access.tenant_id).slug
    try:
        with server_test(access.tenant_id):
            sent = feeds.send_test(
                row,
                tenant_slug=slug,
                reach=settings_of(request).outbound_reach,
                sealer=signing_of(request).sealer,
                now=utc_now(),
            )
    except FeedUnreachable as exc:
        return FeedTestResult(delivered=False, sent="", failure=exc.detail)
    return FeedTestResult(delivered=True, sent=sent, failure="")


@router.post("/{feed}/pause", operation_id="pauseFeed")
def pause_feed(access: Changes, feed: _Name, body: FeedPause) -> FeedDetail:
    """Send nothing until it is resumed; what happens meanwhile is kept for a week."""
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.pause(
            change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed, because=body.because
        )
        return _answer(change, row)


@router.post("/{feed}/resume", operation_id="resumeFeed")
def resume_feed(access: Changes, feed: _Name) -> FeedDetail:
    """Go on where it stands; one that fails is tried at once."""
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.resume(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed, now=utc_now())
        return _answer(change, row)


@router.post("/{feed}/replay", status_code=202, operation_id="replayFeed")
def replay_feed(access: Changes, feed: _Name, body: FeedReplay) -> FeedDetail:
    """Send once more what the logs hold of this time, with the same ids."""
    now = utc_now()
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.replay(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            slug=feed,
            since=body.since,
            until=body.until or now,
            now=now,
        )
        return _answer(change, row)


@router.post("/{feed}/rotate-secret", operation_id="rotateFeedSecret")
def rotate_feed_secret(request: Request, access: Changes, feed: _Name, body: FeedSecretRotation) -> RotatedFeedSecret:
    """A new secret of a webhook, or another client's certificate and key of syslog."""
    if bool(body.client_certificate) != bool(body.client_key):
        raise InvalidFeed("Certificate and key go together.", place="client_certificate")
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "slug": feed}
    who["sealer"] = signing_of(request).sealer
    with access.change() as change:
        _require_match(change, access, feed)
        if body.client_certificate:
            feeds.change_client_certificate(
                change.session, **who, certificate=body.client_certificate, key=body.client_key
            )
            secret = None
        else:
            keep = timedelta(seconds=body.keep_seconds)
            secret = feeds.rotate_secret(change.session, **who, keep=keep, now=utc_now())
        return change.answer(RotatedFeedSecret(secret=secret), state=_locked(change, access, feed))


def _require_to_read(access: Access, row: FeedRow) -> None:
    access.require(*{READ_BY[kind] for kind in stored(row.kind, sealed.shown(row)).kinds})


def _require_match(change: Change, access: Access, feed: str) -> None:
    change.require_match(_locked(change, access, feed))


def _locked(change: Change, access: Access, feed: str) -> FeedDetail:
    row = feeds.require(change.session, tenant_id=access.tenant_id, slug=feed, lock=True)
    return FeedDetail(**_whole(change.session, row))


def _answer(change: Change, row: FeedRow) -> FeedDetail:
    change.session.refresh(row)
    return change.answer(FeedDetail(**_whole(change.session, row)))


def _short(session: Session, row: FeedRow) -> dict[str, Any]:
    waiting = feeds.backlog(session, row)
    settings = stored(row.kind, sealed.shown(row))
    return {
        "name": row.slug,
        "kind": row.kind,
        "destination": f"{settings.host}:{settings.port}" if isinstance(settings, SyslogSettings) else settings.url,
        "state": feeds.state_of(row, waiting, now=utc_now()),
        "behind_events": waiting.events,
        "behind_since": waiting.since,
        "delivered": row.delivered,
        "lost": row.lost,
    }


def _whole(session: Session, row: FeedRow) -> dict[str, Any]:
    settings = sealed.shown(row)
    return {
        **_short(session, row),
        "replays": feeds.backlog(session, row).replays,
        "paused_because": row.paused_because,
        "failing_since": row.failing_since,
        "failure": row.failure,
        "attempts": row.attempts,
        "next_attempt_at": row.next_attempt_at if row.failing_since else None,
        "at_once": row.at_once,
        "delivered_at": row.delivered_at,
        "former_secret_until": row.former_secret_until,
        "settings": {name: "(PEM)" if value and name in _PEM else value for name, value in settings.items()},
    }
