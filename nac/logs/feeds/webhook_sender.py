"""Sender for webhooks: sends batches of events by HTTPS POST, signed according to Standard Webhooks.

The status of the response confirms the batch.
"""

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import accumulate, takewhile

from nac.kit.clock import epoch_seconds
from nac.kit.outbound.http_client import FetchFailed, HttpClient, HttpResponse, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.kit.outbound.tls import tls_context
from nac.logs.events.document import Event
from nac.logs.feeds.progress import SendFailed
from nac.logs.feeds.settings import WebhookSettings
from nac.logs.feeds.shortened_events import shorten_event

_MAX_RESPONSE_BYTES = 16 * 1024
# Maximum size of the events in a body, which is the default limit of many log collectors.
MAX_OCTETS = 1 << 20
# Maximum delay that a receiver can request by Retry-After.
_MAX_RETRY_AFTER_SECONDS = 3600
_TYPE = "admit.events"
# Maximum size of the JSON around the events.
_HEAD_OCTETS = 256
_MARGIN_SECONDS = 0.5
# HTTP statuses that no event of the batch can cause (RFC 9110 15.5, 15.6).
_UNRELATED_STATUSES = {401, 403, 404, 405, 407, 408, 421, 423, 424, 425, 426, 429, 502, 503, 504, 511}
_KEY_PREFIX = "whsec_"
# Length of a secret. Standard Webhooks permits 24 to 64 octets.
_SECRET_BYTES = 32


class WebhookSender:
    is_confirmed = True

    def __init__(self, settings: WebhookSettings, *, reach: OutboundReach, feed: str, secrets: Sequence[str]) -> None:
        """Create a sender for the feed with the id `feed`, which signs with all of `secrets`."""
        self.most_events = settings.batch
        self._settings = settings
        self._feed = feed
        self._secrets = secrets
        self._transport = OutboundTransport(reach, tls=_cached_tls_context(settings.ca_certificate), connections=1)
        seconds = settings.timeout_seconds
        # `seconds` limits each step: TCP, TLS and the response. The total also covers closing a failed connection.
        self._web = HttpClient(self._transport, step_seconds=seconds, total_seconds=2 * seconds + _MARGIN_SECONDS)

    async def send(self, events: Sequence[Event]) -> None:
        body, message_id = self.body(events), self.message_id(events)
        headers = {
            **self._settings.headers,
            "Content-Type": "application/json",
            "User-Agent": "Admit",
            **build_signature_headers(self._secrets, message_id=message_id, at=epoch_seconds(), body=body),
        }
        try:
            answer = await self._web.post(
                self._settings.url, body=body, headers=headers, most_bytes=_MAX_RESPONSE_BYTES
            )
        except FetchFailed as exc:
            # The message must not contain the URL, because the URL may contain a secret.
            raise SendFailed(exc.why, is_slow=exc.is_slow) from exc
        _require_accepted(answer)

    def fitting(self, events: Sequence[Event]) -> int:
        most = MAX_OCTETS - _HEAD_OCTETS
        ends = accumulate(len(_shorten(event)) + 1 for event in events)
        return max(1, sum(1 for _ in takewhile(lambda end: end <= most, ends)))

    def body(self, events: Sequence[Event]) -> bytes:
        """Return the request body with type, timestamp and data (Standard Webhooks)."""
        head = b'{"type":"%b","timestamp":"%b","data":{"events":[' % (_TYPE.encode(), events[-1].timestamp.encode())
        return head + b",".join(map(_shorten, events)) + b"]}}"

    def message_id(self, events: Sequence[Event]) -> str:
        """Return the message id of a batch. A repeated batch has the same message id as before."""
        digest = hashlib.sha256(self._feed.encode())
        for event in events:
            digest.update(event.event.id.encode() + b"\0")
        return f"msg_{digest.hexdigest()[:32]}"

    async def close(self) -> None:
        await self._transport.aclose()

    async def drop(self) -> None:
        await self._transport.aclose()


def generate_secret() -> str:
    """Create a secret in the format of Standard Webhooks."""
    return _KEY_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def build_signature_headers(secrets_: Iterable[str], *, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers by which receivers verify the sender and the age of a request (Standard Webhooks 1.0).

    The signature is the HMAC-SHA-256 of "<webhook-id>.<webhook-timestamp>.<body>". During a secret rotation,
    `secrets_` has the old and the new secret, and the header has a signature with each secret. `at` is in epoch
    seconds.
    """
    signed = f"{message_id}.{at}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{_compute_mac(secret, signed)}" for secret in secrets_),
    }


def _shorten(event: Event) -> bytes:
    return shorten_event(event, most=MAX_OCTETS - _HEAD_OCTETS - 1)


def _require_accepted(answer: HttpResponse) -> None:
    status = answer.status
    if 200 <= status < 300:
        return
    if status == 410:
        raise SendFailed("The server responded with status 410 (Gone). The feed is paused.", is_gone=True)
    if 300 <= status < 400:
        raise SendFailed(f"The server responded with status {status}. Redirects are not followed.")
    raise SendFailed(
        f"The server responded with status {status}.",
        retry_after_seconds=_retry_after(answer.headers),
        is_too_much=status == 413,
        is_refused=status not in _UNRELATED_STATUSES,
    )


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Return the delay of Retry-After in seconds (RFC 9110 10.2.3), limited; None if missing or invalid."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        seconds = int(text[:9])
    else:
        try:
            seconds = int(parsedate_to_datetime(text).timestamp()) - epoch_seconds()
        except (ValueError, OverflowError):
            return None
    return min(max(0, seconds), _MAX_RETRY_AFTER_SECONDS)


@lru_cache(maxsize=64)
def _cached_tls_context(ca_certificate: str) -> ssl.SSLContext:
    return tls_context(ca_certificate)


def _compute_mac(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_KEY_PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
