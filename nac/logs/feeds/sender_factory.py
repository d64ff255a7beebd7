"""Creates the sender of a feed."""

from datetime import datetime
from uuid import UUID

from nac.kit.advice import Advice, NextStep
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import Sealer
from nac.logs.feeds.sealed_settings import open_settings, seal_context
from nac.logs.feeds.sender import FeedSender
from nac.logs.feeds.settings import AnyFeedSettings, SyslogSettings
from nac.logs.feeds.syslog_sender import SyslogSender
from nac.logs.feeds.webhook_sender import WebhookSender
from nac.models import Feed

_NETWORKS_REMEDY = Advice(
    "The address is outside of the feed's networks. Change them.", NextStep("updateFeed", {"networks": ""})
)


def build_sender(feed: Feed, *, reach: OutboundReach, sealer: Sealer, now: datetime) -> FeedSender:
    """Create a sender. Call it inside a running event loop, which owns the connections."""
    settings = open_settings(feed, sealer)
    within = build_reach(settings, reach=reach, tenant_id=feed.tenant_id)
    secrets = [
        sealer.open(sealed, seal_context(feed.tenant_id, feed.id)).decode() for sealed in _valid_secrets(feed, now)
    ]
    if isinstance(settings, SyslogSettings):
        return SyslogSender(settings, reach=within, client_key="".join(secrets))
    return WebhookSender(settings, reach=within, feed=str(feed.id), secrets=secrets)


def build_reach(settings: AnyFeedSettings, *, reach: OutboundReach, tenant_id: UUID) -> OutboundReach:
    """Return the permitted addresses of the feed; its networks are valid."""
    return reach.within(settings.networks, remedy=_NETWORKS_REMEDY, owner=str(tenant_id))


def _valid_secrets(feed: Feed, now: datetime) -> list[bytes]:
    """Return the sealed secrets in use, the current one first."""
    is_former_valid = feed.former_secret_until is not None and feed.former_secret_until > now
    return [sealed for sealed in (feed.secret_sealed, is_former_valid and feed.former_secret_sealed) if sealed]
