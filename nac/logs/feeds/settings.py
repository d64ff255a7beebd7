"""Settings of feeds. Admit checks and stores all settings of a feed as one document.

Admit seals the URL and the headers of a webhook, because they may contain keys. The readable settings have a shortened
URL, and placeholders for the values of the headers.
"""

import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from nac.kit.ids import TenantId
from nac.kit.outbound.reach import is_address
from nac.kit.outbound.tls import tls_context
from nac.kit.secrets import Sealer
from nac.kit.validation import is_https_address
from nac.logs.feeds.event_sources import EVENT_KINDS, list_kinds_without_events
from nac.models import Feed

# Numbers of the syslog facilities (RFC 5424 6.2.1).
FACILITIES = {
    "kern": 0,
    "user": 1,
    "mail": 2,
    "daemon": 3,
    "auth": 4,
    "syslog": 5,
    "lpr": 6,
    "news": 7,
    "uucp": 8,
    "cron": 9,
    "authpriv": 10,
    "ftp": 11,
    "ntp": 12,
    "audit": 13,
    "alert": 14,
    "clock": 15,
    **{f"local{number}": 16 + number for number in range(8)},
}
SEVERITIES = {
    name: number for number, name in enumerate(("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"))
}
OUTCOMES = ("success", "failure", "unknown")
# Enterprise number reserved for documentation (RFC 5612). Administrators can set the number of their organisation.
DOCUMENTATION_ENTERPRISE = 32473
_MIN_TIMEOUT_SECONDS, _MAX_TIMEOUT_SECONDS = 1.0, 10.0
_MAX_NETWORKS = 50
# Patterns for the syslog fields APP-NAME (RFC 5424 6.2.5) and HOSTNAME (6.2.4).
_APP_NAME = re.compile(r"[!-~]{1,48}")
_HOSTNAME = re.compile(r"[!-~]{1,255}")
# Patterns for the name (RFC 9110 5.6.2) and the value (RFC 9110 5.5) of an HTTP header.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HEADER_VALUE = re.compile(r"[!-~]([ -~]{0,4094}[!-~])?")
_MAX_HEADERS = 10
# Headers that administrators cannot set, because Admit or the HTTP client sets them.
_RESERVED_HEADERS = {
    *("host", "content-type", "content-length", "content-encoding", "user-agent", "accept", "accept-encoding"),
    *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect", "http2-settings"),
    *("webhook-id", "webhook-timestamp", "webhook-signature"),
}
_DNS_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?", re.I
)


class FeedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that syslog feeds and webhooks have in common."""

    # Kinds of events to send (docs/reference/events.md).
    kinds: tuple[str, ...] = EVENT_KINDS
    # Values of `event.outcome` to send. Empty: all events.
    outcomes: tuple[str, ...] = ()
    # Networks (CIDR) that the host's address must be in. Empty: the platform's networks (ADMIT_OUTBOUND_NETWORKS).
    networks: tuple[str, ...] = ()
    # PEM certificates of the authorities trusted for the receiver; "" for the authorities of the operating system.
    ca_certificate: str = ""
    # Maximum time of each step: connection, TLS handshake, response to a batch.
    timeout_seconds: float = 5.0


class SyslogSettings(FeedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str
    # Port of syslog over TLS (RFC 5425 4.1).
    port: int = 6514
    facility: str = "authpriv"
    app_name: str = "admit"
    # HOSTNAME in messages; "" for the name of the worker's machine.
    hostname: str = ""
    enterprise: int = DOCUMENTATION_ENTERPRISE
    # Maps "kind" or "kind.outcome" of an event to the name of a severity. The longer key takes precedence.
    severities: dict[str, str] = {}
    # True: MSG begins with a byte order mark and is UTF-8. False: MSG is ASCII with JSON escapes.
    bom: bool = False
    # PEM of the client certificate with its chain. Admit stores its key as the feed's secret.
    client_certificate: str = ""


class WebhookSettings(FeedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    # Maximum events per request.
    batch: int = 100
    # Additional headers of each request, such as Authorization.
    headers: dict[str, str] = {}


AnyFeedSettings = SyslogSettings | WebhookSettings
_SETTINGS_TYPES: dict[str, type[AnyFeedSettings]] = {"syslog": SyslogSettings, "webhook": WebhookSettings}


def parse_settings(kind: Literal["syslog", "webhook"] | str, document: dict[str, Any]) -> AnyFeedSettings:
    return msgspec.convert(document, _SETTINGS_TYPES[kind])


def find_mistakes(settings: AnyFeedSettings, *, client_key: str = "") -> list[tuple[str, str]]:
    """Return (field, message) for each mistake in the settings."""
    special = (
        _syslog_mistakes(settings, client_key) if isinstance(settings, SyslogSettings) else _webhook_mistakes(settings)
    )
    return [*special, *_common_mistakes(settings)]


def _common_mistakes(settings: FeedSettings) -> Iterator[tuple[str, str]]:
    yield from _unknown_values("kinds", settings.kinds, EVENT_KINDS)
    if not settings.kinds:
        yield "kinds", f"must have at least one of {', '.join(EVENT_KINDS)}"
    yield from _unknown_values("outcomes", settings.outcomes, OUTCOMES)
    known = [kind for kind in settings.kinds if kind in EVENT_KINDS]
    if (
        known
        and set(settings.outcomes) <= set(OUTCOMES)
        and list_kinds_without_events(known, settings.outcomes) == known
    ):
        yield "outcomes", f"nothing would be sent: no event of {', '.join(known)} has such an outcome"
    if not _MIN_TIMEOUT_SECONDS <= settings.timeout_seconds <= _MAX_TIMEOUT_SECONDS:
        yield "timeout_seconds", f"must be between {_MIN_TIMEOUT_SECONDS:g} and {_MAX_TIMEOUT_SECONDS:g}"
    if len(settings.networks) > _MAX_NETWORKS:
        yield "networks", f"must have at most {_MAX_NETWORKS} entries"
    for text in settings.networks:
        try:
            ip_network(text)
        except ValueError as exc:
            yield "networks", f"{exc}; write a network as 10.1.0.0/16"
    if settings.ca_certificate:
        try:
            tls_context(settings.ca_certificate)
        except (ssl.SSLError, ValueError) as exc:
            yield "ca_certificate", f"not a valid PEM certificate: {exc}"


def _unknown_values(place: str, given: Iterable[str], known: Iterable[str]) -> Iterator[tuple[str, str]]:
    choices = tuple(known)
    for text in given:
        if text not in choices:
            yield place, f"{text!r} must be one of {', '.join(choices)}"


def _syslog_mistakes(settings: SyslogSettings, client_key: str) -> Iterator[tuple[str, str]]:
    if not is_address(settings.host) and not _DNS_NAME.fullmatch(settings.host):
        yield "host", f"{settings.host[:100]!r} is not a host name or address"
    if not 1 <= settings.port <= 65535:
        yield "port", "must be between 1 and 65535"
    yield from _unknown_values("facility", [settings.facility], FACILITIES)
    if not _APP_NAME.fullmatch(settings.app_name):
        yield "app_name", "must be 1 to 48 printable ASCII characters without spaces"
    if settings.hostname and not _HOSTNAME.fullmatch(settings.hostname):
        yield "hostname", "must be up to 255 printable ASCII characters without spaces"
    # IANA assigns private enterprise numbers (RFC 5424 7.2.2).
    if not 1 <= settings.enterprise <= 2**32 - 1:
        yield "enterprise", "must be an IANA private enterprise number"
    yield from _unknown_values("severities", settings.severities.values(), SEVERITIES)
    events = (*EVENT_KINDS, *(f"{kind}.{outcome}" for kind in EVENT_KINDS for outcome in OUTCOMES))
    yield from _unknown_values("severities", settings.severities, events)
    if bool(settings.client_certificate) != bool(client_key):
        yield "client_certificate", "certificate and key are required together"
    elif client_key:
        yield from _key_pair_mistakes(settings.client_certificate, client_key)


def _key_pair_mistakes(certificate: str, key: str) -> Iterator[tuple[str, str]]:
    try:
        certified = x509.load_pem_x509_certificates(certificate.encode())[0].public_key()
    except (ValueError, UnsupportedAlgorithm) as exc:
        yield "client_certificate", f"not a valid PEM certificate: {exc}"
        return
    try:
        public = load_pem_private_key(key.encode(), password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        yield "client_key", "not a PEM private key without a password"
        return
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != certified.public_bytes(*form):
        yield "client_key", "the key does not belong to the certificate"
        return
    try:
        tls_context(client_certificate=certificate, client_key=key)
    except ssl.SSLError as exc:
        # OpenSSL rejects weak keys and signatures.
        yield "client_certificate", f"cannot be used for TLS: {exc.reason}"


def _webhook_mistakes(settings: WebhookSettings) -> Iterator[tuple[str, str]]:
    # The message does not contain the URL, because the URL may contain a key.
    if not is_https_address(settings.url):
        yield "url", "must be https://host, optionally with a path"
    if not 1 <= settings.batch <= 500:
        yield "batch", "must be between 1 and 500"
    if len(settings.headers) > _MAX_HEADERS:
        yield "headers", f"must have at most {_MAX_HEADERS} entries"
    if len({name.lower() for name in settings.headers}) < len(settings.headers):
        yield "headers", "must have each name only once"
    for name, value in settings.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            yield "headers", "a name must have up to 64 letters, digits and hyphens (RFC 9110 5.6.2)"
        elif name.lower() in _RESERVED_HEADERS:
            yield "headers", f"Admit sets {name}"
        elif not _HEADER_VALUE.fullmatch(value):
            yield "headers", f"{name} must be up to 4096 printable ASCII characters, without spaces around them"


def get_host(settings: AnyFeedSettings) -> str:
    """Return the host of the destination: a name or an address."""
    return settings.host if isinstance(settings, SyslogSettings) else urlsplit(settings.url).hostname or ""


def get_hostname(settings: SyslogSettings) -> str:
    """Return the HOSTNAME for messages: the setting or the machine's name (RFC 5424 6.2.4)."""
    name = settings.hostname or socket.gethostname()
    return name if _HOSTNAME.fullmatch(name) else "-"


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
