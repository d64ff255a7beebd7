"""Secret parts of a feed's settings: the webhook URL, which may contain a key, and the headers. Both are sealed; the
readable settings have a short form.
"""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from nac.feeds.settings import Settings, WebhookSettings, stored
from nac.ids import TenantId
from nac.models import Feed
from nac.secrets import Sealer

# Placeholder for a header's value.
_SEALED = "(sealed)"


class Private(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str]


def context_of(tenant_id: TenantId, feed_id: UUID) -> str:
    """Return the context of its secrets."""
    return f"feed:{tenant_id}:{feed_id}"


def put(feed: Feed, settings: Settings, sealer: Sealer) -> None:
    """Store the settings in the row, which has its ids."""
    feed.settings = _in_short(msgspec.json.decode(msgspec.json.encode(settings)))
    if isinstance(settings, WebhookSettings):
        private = msgspec.json.encode(Private(settings.url, settings.headers))
        feed.private_sealed = sealer.seal(private, _private_context(feed))


def opened(feed: Feed, sealer: Sealer) -> Settings:
    """Return the settings with their secret parts. Raises SecretsError."""
    settings = stored(feed.kind, feed.settings)
    if feed.private_sealed is None:
        return settings
    private = msgspec.json.decode(sealer.open(feed.private_sealed, _private_context(feed)), type=Private)
    return msgspec.structs.replace(settings, **msgspec.structs.asdict(private))


def shown(feed: Feed) -> dict[str, Any]:
    """Return the settings without secrets, for display and the audit log."""
    return _in_short(feed.settings)


def _in_short(document: dict[str, Any]) -> dict[str, Any]:
    if "url" not in document:
        return document
    return document | {
        "url": short_url(document["url"]),
        "headers": dict.fromkeys(document.get("headers", {}), _SEALED),
    }


def short_url(url: str) -> str:
    """Return scheme, host and port, with dots for the rest."""
    parts = urlsplit(url)
    is_all = parts.path in ("", "/") and not parts.query
    return f"{parts.scheme}://{parts.netloc}/" + ("" if is_all else "...")


def _private_context(feed: Feed) -> str:
    return f"{context_of(feed.tenant_id, feed.id)}:private"
