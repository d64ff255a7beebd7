"""Feeds, which send a tenant's events to syslog servers and webhooks."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.application_state import get_settings, get_signing
from api.change import Change, ObservedModel
from api.concurrency_limit import limit_server_tests
from api.routes import NounRouter
from api.v1.feed_settings import FeedSettingsUpdate, SyslogFeedSettings, WebhookFeedSettings, dump_given_settings
from api.v1.inputs import Input, Slug, body_example, body_examples
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import PastMoment
from nac.kit.clock import utc_now
from nac.kit.permissions import Effect, Permission
from nac.logs.feeds import service as feeds
from nac.logs.feeds.repository import ORDERS, FeedBacklog
from nac.logs.feeds.service import FeedUnreachable, InvalidFeed
from nac.logs.feeds.settings import SyslogSettings, WebhookSettings, parse_settings, visible_settings
from nac.models import Feed as FeedRow
from nac.models.feed import PERMISSION_BY_KIND
from nac.tenancy.tenants import service as tenants

router = NounRouter(
    prefix="/tenants/{tenant}/feeds",
    tag="feeds",
    description="Feeds, which deliver events to syslog servers and webhooks.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.FEED_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.FEED_MANAGE, Effect.RECORDS))]
Redirects = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.FEED_MANAGE, Effect.DISCLOSURE, Effect.CONNECTION, also=frozenset(PERMISSION_BY_KIND.values())
        )
    ),
]
Tests = Annotated[Access, Depends(ReadsTenant(Permission.FEED_MANAGE, Effect.CONNECTION))]
_Name = Annotated[str, Path(max_length=63, examples=["siem"], description="Name of the feed.")]
_Pem = Annotated[str, Field(max_length=100_000)]
_PEM = ("ca_certificate", "client_certificate")
# Fields that people set. Admit updates all other fields.
_CONFIGURED_FIELDS = {"name", "kind", "destination", "paused_because", "former_secret_until", "settings"}


class Feed(ObservedModel):
    name: str = Field(description="Name of the feed.")
    kind: Literal["syslog", "webhook"] = Field(description="Kind of the feed: webhook or syslog.")
    destination: str = Field(
        description="Host and port of the syslog server, or URL of the webhook without the part after the host."
    )
    state: Literal["ok", "behind", "failing", "paused"] = Field(
        description="State of the feed. If `behind`, events wait for delivery. If `failing`, the last delivery failed."
    )
    behind_events: int = Field(description="Number of events that wait for delivery.")
    behind_since: datetime | None = Field(description="Time when the oldest event that waits for delivery was logged.")
    delivered: int = Field(description="Number of events that the feed has delivered.")
    lost: int = Field(description="Number of events that expired before Admit delivered them.")

    def observed_fields(self) -> set[str]:
        # Only people pause a feed. Admit sets all other states.
        chosen = _CONFIGURED_FIELDS | {"state"} if self.state == "paused" else _CONFIGURED_FIELDS
        return set(type(self).model_fields) - chosen


class FeedDetail(Feed):
    replays: bool = Field(description="Whether the feed is sending logged events again.")
    paused_because: str = Field(description='Reason why the feed is paused; "" if the feed is not paused.')
    failing_since: datetime | None = Field(
        description="Time of the first failed delivery since the last successful delivery."
    )
    failure: str = Field(description='Error of the last delivery attempt; "" if the attempt succeeded.')
    attempts: int = Field(description="Number of delivery attempts since the last successful delivery.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next delivery attempt; null if deliveries succeed."
    )
    at_once: int | None = Field(
        description="Reduced maximum number of events per message after the receiver timed out; null if not reduced."
    )
    delivered_at: datetime | None = Field(description="Time of the last successful delivery.")
    former_secret_until: datetime | None = Field(
        description="Time until which the previous secret also signs messages."
    )
    settings: dict[str, Any] = Field(description='Settings of the feed. "(sealed)" and "(PEM)" replace hidden values.')


class CreatedFeed(FeedDetail):
    secret: str | None = Field(description="Secret that signs the messages of a webhook, only in this response.")


class WebhookFeedInput(Input):
    model_config = body_examples(
        (
            "webhook",
            "A webhook",
            {
                "kind": "webhook",
                "name": "siem",
                "settings": {
                    "url": "https://siem.example/admit",
                    "kinds": ["authentication"],
                    "headers": {"Authorization": "Bearer k3m9pq7r2xw4"},
                },
            },
        )
    )

    kind: Literal["webhook"] = Field(description="Kind of the feed: webhook.")
    name: Slug = Field(examples=["siem"], description="Name of the feed.")
    settings: WebhookFeedSettings = Field(description="Settings of the webhook feed.")


class SyslogFeedInput(Input):
    model_config = body_examples(
        (
            "syslog",
            "A syslog server",
            {
                "kind": "syslog",
                "name": "siem",
                "settings": {"host": "siem.example", "port": 6514, "kinds": ["authentication"]},
            },
        )
    )

    kind: Literal["syslog"] = Field(description="Kind of the feed: syslog.")
    name: Slug = Field(examples=["siem"], description="Name of the feed.")
    settings: SyslogFeedSettings = Field(description="Settings of the syslog feed.")
    client_key: _Pem = Field(
        "",
        examples=["-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"],
        description="Key of `client_certificate` (PEM); stored encrypted and never returned.",
    )


class FeedPause(Input):
    because: str = Field("", max_length=1_000, description="Reason why you pause the feed.")


class FeedReplay(Input):
    model_config = body_example({"since": "2026-11-01T08:00:00Z", "until": "2026-11-01T09:00:00Z"})

    since: PastMoment = Field(description="Start of the period of the events to send again.")
    until: PastMoment | None = Field(
        None, description="End of the period of the events to send again, exclusive; null for now."
    )


class FeedSecretRotation(Input):
    model_config = body_example({"keep_seconds": 3600})

    keep_seconds: int = Field(
        86_400, ge=0, le=30 * 86_400, description="Time in seconds for which the previous secret also signs messages."
    )
    client_certificate: _Pem = Field(
        "",
        examples=["-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"],
        description="New client certificate of a syslog feed, with its chain (PEM).",
    )
    client_key: _Pem = Field(
        "",
        examples=["-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"],
        description="Key of `client_certificate` (PEM); stored encrypted and never returned.",
    )


class RotatedFeedSecret(BaseModel):
    secret: str | None = Field(description="Secret that signs the messages of a webhook, only in this response.")


class FeedTestResult(BaseModel):
    delivered: bool = Field(description="Whether the receiver accepted the test event.")
    sent: str = Field(description='Id of the test event; "" if Admit did not deliver the event.')
    failure: str = Field(description='Error of the test delivery; "" if the delivery succeeded.')


@router.get("", operation_id="listFeeds")
def list_feeds(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the name of the feeds to list.")] = "",
    kind: Annotated[Literal["syslog", "webhook"] | None, Query(description="Kind of the feeds to list.")] = None,
) -> Page[Feed]:
    """List feeds with delivery state.

    A tenant can have 20 feeds.
    """
    with access.read() as session:
        rows = feeds.list_page(session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "")
        backlogs = feeds.get_backlogs(session, tenant_id=access.tenant_id, feed_ids=[row.id for row in rows])
        return paging.ordered(rows, lambda row: Feed(**_describe_feed(row, backlogs[row.id])))


@router.post("", status_code=201, operation_id="createFeed")
def create_feed(
    request: Request,
    access: Redirects,
    body: Annotated[WebhookFeedInput | SyslogFeedInput, Field(discriminator="kind")],
) -> CreatedFeed:
    """Create a feed. The feed sends events that occur from now on.

    Requires the permissions to read the events of the feed too.
    """
    fields = dump_given_settings(body.settings)
    settings = WebhookSettings(**fields) if body.kind == "webhook" else SyslogSettings(**fields)
    with access.change() as change:
        added = feeds.create_feed(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            slug=body.name,
            settings=settings,
            client_key=body.client_key if body.kind == "syslog" else "",
            sealer=get_signing(request).sealer,
            reach=get_settings(request).outbound_reach,
        )
        _require_read_permissions(access, added.feed)
        change.session.refresh(added.feed)
        change.located(added.feed.slug)
        return change.answer(CreatedFeed(**_describe_feed_detail(change.session, added.feed), secret=added.secret))


@router.get("/{feed}", operation_id="getFeed")
def get_feed(access: Reads, feed: _Name) -> FeedDetail:
    """Get a feed, with settings, delivery state and last error."""
    with access.read() as session:
        row = feeds.require_feed(session, tenant_id=access.tenant_id, slug=feed)
        return access.shown(FeedDetail(**_describe_feed_detail(session, row)))


@router.patch("/{feed}", operation_id="updateFeed")
def update_feed(request: Request, access: Redirects, feed: _Name, body: FeedSettingsUpdate) -> FeedDetail:
    """Update a feed.

    Omitted settings stay unchanged; null resets a setting to the default. Admit sends waiting events immediately with
    the new settings.

    Changes other than the name require the permissions to read the events of the feed too.
    """
    fields = dump_given_settings(body)
    name = fields.pop("name", None)
    reset = [name for name, value in fields.items() if value is None]
    with access.change() as change:
        _require_match(change, access, feed)
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
        if name is not None:
            feed = feeds.rename_feed(change.session, **who, slug=feed, new_slug=name).slug
        if fields:
            row = feeds.update_feed(
                change.session,
                **who,
                slug=feed,
                changes={name: value for name, value in fields.items() if value is not None},
                reset=reset,
                sealer=get_signing(request).sealer,
                reach=get_settings(request).outbound_reach,
                now=utc_now(),
            )
            _require_read_permissions(access, row)
        return _respond_with_feed(change, feeds.require_feed(change.session, tenant_id=access.tenant_id, slug=feed))


@router.delete("/{feed}", status_code=204, operation_id="deleteFeed")
def delete_feed(access: Changes, feed: _Name) -> None:
    """Delete a feed.

    Waiting events are discarded.
    """
    with access.change() as change:
        _require_match(change, access, feed)
        feeds.delete_feed(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed)
        change.set_empty_response()


@router.post("/{feed}/test", operation_id="testFeed")
def test_feed(request: Request, access: Tests, feed: _Name) -> FeedTestResult:
    """Send a test event to the receiver of a feed now.

    You can also test a paused feed. A failed delivery is a result, not an error. Only a few tests can run at a time.
    Further tests fail with 429.
    """
    with access.read() as session:
        row = feeds.require_feed(session, tenant_id=access.tenant_id, slug=feed)
        slug = tenants.require_tenant(session, tenant_id=access.tenant_id).slug
    try:
        with limit_server_tests(access.tenant_id):
            sent = feeds.send_test_event(
                row,
                tenant_slug=slug,
                reach=get_settings(request).outbound_reach,
                sealer=get_signing(request).sealer,
                now=utc_now(),
            )
    except FeedUnreachable as exc:
        return FeedTestResult(delivered=False, sent="", failure=exc.detail)
    return FeedTestResult(delivered=True, sent=sent, failure="")


@router.post("/{feed}/pause", operation_id="pauseFeed")
def pause_feed(access: Changes, feed: _Name, body: FeedPause) -> FeedDetail:
    """Pause a feed.

    During the pause, Admit stores events for a week.
    """
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.pause_feed(
            change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed, because=body.because
        )
        return _respond_with_feed(change, row)


@router.post("/{feed}/resume", operation_id="resumeFeed")
def resume_feed(access: Changes, feed: _Name) -> FeedDetail:
    """Resume a paused feed after the last delivered event.

    If the feed was failing, Admit retries immediately.
    """
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.resume_feed(
            change.session, actor=access.actor, tenant_id=access.tenant_id, slug=feed, now=utc_now()
        )
        return _respond_with_feed(change, row)


@router.post("/{feed}/replay", status_code=202, operation_id="replayFeed")
def replay_feed(access: Changes, feed: _Name, body: FeedReplay) -> FeedDetail:
    """Send the logged events of a period again, with the same ids as in the first delivery."""
    now = utc_now()
    with access.change() as change:
        _require_match(change, access, feed)
        row = feeds.replay_feed(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            slug=feed,
            since=body.since,
            until=body.until or now,
            now=now,
        )
        return _respond_with_feed(change, row)


@router.post("/{feed}/rotate-secret", operation_id="rotateFeedSecret")
def rotate_feed_secret(request: Request, access: Changes, feed: _Name, body: FeedSecretRotation) -> RotatedFeedSecret:
    """Rotate the secret of a webhook, or the client certificate and key of a syslog feed."""
    if bool(body.client_certificate) != bool(body.client_key):
        raise InvalidFeed(
            "Set `client_certificate` and `client_key` together, or omit both.", place="client_certificate"
        )
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "slug": feed}
    who["sealer"] = get_signing(request).sealer
    with access.change() as change:
        _require_match(change, access, feed)
        if body.client_certificate:
            feeds.update_client_certificate(
                change.session, **who, certificate=body.client_certificate, key=body.client_key
            )
            secret = None
        else:
            keep = timedelta(seconds=body.keep_seconds)
            secret = feeds.rotate_secret(change.session, **who, keep=keep, now=utc_now())
        return change.answer(RotatedFeedSecret(secret=secret), state=_lock_feed(change, access, feed))


def _require_read_permissions(access: Access, row: FeedRow) -> None:
    access.require(*{PERMISSION_BY_KIND[kind] for kind in parse_settings(row.kind, visible_settings(row)).kinds})


def _require_match(change: Change, access: Access, feed: str) -> None:
    change.require_match(_lock_feed(change, access, feed))


def _lock_feed(change: Change, access: Access, feed: str) -> FeedDetail:
    row = feeds.require_feed(change.session, tenant_id=access.tenant_id, slug=feed, lock=True)
    return FeedDetail(**_describe_feed_detail(change.session, row))


def _respond_with_feed(change: Change, row: FeedRow) -> FeedDetail:
    change.session.refresh(row)
    return change.answer(FeedDetail(**_describe_feed_detail(change.session, row)))


def _describe_feed(row: FeedRow, waiting: FeedBacklog) -> dict[str, Any]:
    settings = parse_settings(row.kind, visible_settings(row))
    return {
        "name": row.slug,
        "kind": row.kind,
        "destination": f"{settings.host}:{settings.port}" if isinstance(settings, SyslogSettings) else settings.url,
        "state": feeds.get_state(row, waiting, now=utc_now()),
        "behind_events": waiting.events,
        "behind_since": waiting.since,
        "delivered": row.delivered,
        "lost": row.lost,
    }


def _describe_feed_detail(session: Session, row: FeedRow) -> dict[str, Any]:
    settings, waiting = visible_settings(row), feeds.get_backlog(session, row)
    return {
        **_describe_feed(row, waiting),
        "replays": waiting.replays,
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
