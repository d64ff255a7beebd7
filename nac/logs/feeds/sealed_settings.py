"""Secret settings of a feed: the URL of a webhook, which may contain a key, and its headers.

Admit seals the URL and the headers. The readable settings have a shortened URL, and placeholders for the values of
the headers.
"""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.logs.feeds.settings import AnyFeedSettings, WebhookSettings, parse_settings
from nac.models import Feed

# Placeholder for a header's value in the readable settings.
_SEALED_TEXT = "(sealed)"


class PrivateSettings(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str]


def seal_context(tenant_id: TenantId, feed_id: UUID) -> str:
    """Return the context for sealing and opening the feed's secrets."""
    return f"feed:{tenant_id}:{feed_id}"


def store_settings(feed: Feed, settings: AnyFeedSettings, sealer: Sealer) -> None:
    """Store the settings in the feed's row. The row of the feed must already have its id and tenant."""
    feed.settings = _shorten_secrets(msgspec.json.decode(msgspec.json.encode(settings)))
    if isinstance(settings, WebhookSettings):
        private = msgspec.json.encode(PrivateSettings(settings.url, settings.headers))
        feed.private_sealed = sealer.seal(private, _private_context(feed))


def open_settings(feed: Feed, sealer: Sealer) -> AnyFeedSettings:
    """Return the settings, including the secret settings. Raises SecretsError."""
    settings = parse_settings(feed.kind, feed.settings)
    if feed.private_sealed is None:
        return settings
    private = msgspec.json.decode(sealer.open(feed.private_sealed, _private_context(feed)), type=PrivateSettings)
    return msgspec.structs.replace(settings, **msgspec.structs.asdict(private))


def visible_settings(feed: Feed) -> dict[str, Any]:
    """Return the readable settings, for display and the audit log."""
    return _shorten_secrets(feed.settings)


def _shorten_secrets(document: dict[str, Any]) -> dict[str, Any]:
    if "url" not in document:
        return document
    return document | {
        "url": shorten_url(document["url"]),
        "headers": dict.fromkeys(document.get("headers", {}), _SEALED_TEXT),
    }


def shorten_url(url: str) -> str:
    """Return scheme, host and port of a URL. "..." replaces the path and the query."""
    parts = urlsplit(url)
    is_all = parts.path in ("", "/") and not parts.query
    return f"{parts.scheme}://{parts.netloc}/" + ("" if is_all else "...")


def _private_context(feed: Feed) -> str:
    return f"{seal_context(feed.tenant_id, feed.id)}:private"
