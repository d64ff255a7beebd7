"""A tenant's own server judges a SCEP challenge and receives the outcome (contract: docs/how-to/scep.md).

Over HTTPS and to permitted addresses alone, without following redirects. Each body is signed, so that the server knows
who asks.
"""

import asyncio
import base64
import hashlib
import hmac
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from nac.clock import epoch_seconds
from nac.errors import Unavailable
from nac.outbound.http_client import FetchFailed, HttpClient
from nac.outbound.reach import OutboundReach
from nac.outbound.tls import tls_context
from nac.outbound.transport import OutboundTransport
from nac.scep.settings import WebhookSettings
from pki.errors import NameNotAllowed
from pki.names import San, parse_san
from pki.signing_requests import SigningRequest

SIGNATURE_HEADER = "Admit-Signature"
_VERSION = 1
_MAX_RESPONSE_BYTES = 64 * 1024
_MAX_TEXT = 200
_MAX_WAITING = 4
# Connecting, the head of the answer, its body.
_STEPS = 3
_PLACE = "SCEP webhook"


class WebhookUnavailable(Unavailable):
    """The server that knows this challenge does not answer as it should."""


@dataclass(frozen=True, slots=True)
class Webhook:
    settings: WebhookSettings
    # Where the platform connects to, within the networks of the settings.
    reach: OutboundReach
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookEnrolment:
    """What the server is asked about."""

    tenant: str
    transaction_id: str
    # PKCS#10 in DER.
    certificate_request: bytes = field(repr=False)
    # Where the device came from.
    address: str

    def members(self, event: str) -> dict[str, object]:
        return {
            "version": _VERSION,
            "event": event,
            "tenant": self.tenant,
            "transaction_id": self.transaction_id,
            "certificate_request": base64.b64encode(self.certificate_request).decode(),
            "caller": {"product": "Admit", "protocol": "scep", "address": self.address},
        }


class WebhookResponse(msgspec.Struct, frozen=True):
    """More members may come; these are understood."""

    decision: Literal["allow", "deny"]
    reason: str = ""
    common_name: str = ""
    sans: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Permit:
    """For whom the certificate may be."""

    common_name: str | None
    sans: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Denial:
    reason: str


class _ConcurrencyLimit:
    """Of each tenant a few enrolments wait for its server: one that is slow holds up nobody else's devices."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, tenant: str) -> Iterator[None]:
        """Raises WebhookUnavailable where all are taken."""
        with self._lock:
            if self._taken[tenant] >= self._most:
                raise WebhookUnavailable(f"{self._most} enrolments wait for its answer already.", place=_PLACE)
            self._taken[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[tenant] -= 1
                # Counts of zero are dropped.
                self._taken += Counter()


_concurrency_limit = _ConcurrencyLimit(_MAX_WAITING)


def ask_webhook(
    webhook: Webhook, enrolment: WebhookEnrolment, challenge: str, request: SigningRequest
) -> Permit | Denial:
    """Raises WebhookUnavailable where there is no answer that can be relied on."""
    members = enrolment.members("validate") | {
        "challenge": challenge,
        "common_name": request.common_name,
        "sans": [str(item) for item in request.sans],
    }
    try:
        with _concurrency_limit.one(enrolment.tenant):
            said = _post(webhook, members)
        answer = msgspec.json.decode(said, type=WebhookResponse)
        sans = tuple(map(parse_san, answer.sans))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, NameNotAllowed) as exc:
        raise WebhookUnavailable(f"Its answer is not one of the contract: {exc}", place=_PLACE) from exc
    if answer.decision == "deny":
        return Denial(answer.reason[:_MAX_TEXT])
    if not answer.common_name and not sans:
        raise WebhookUnavailable("It allows, but names nobody.", place=_PLACE)
    return Permit(answer.common_name or None, _san_texts(sans))


def _san_texts(sans: tuple[San, ...]) -> tuple[str, ...]:
    return tuple(map(str, sans))


def notify_issued(webhook: Webhook, enrolment: WebhookEnrolment, certificate: x509.Certificate) -> None:
    """Raises WebhookUnavailable."""
    # Intune keys its record by the SHA-1 thumbprint; nothing here trusts in it.
    sha1 = certificate.fingerprint(hashes.SHA1())  # noqa: S303
    members = enrolment.members("issued") | {
        "serial_number": f"{certificate.serial_number:x}",
        "thumbprint_sha1": sha1.hex(),
        "thumbprint_sha256": certificate.fingerprint(hashes.SHA256()).hex(),
        "not_after": _format_time(certificate.not_valid_after_utc),
        "issuer": certificate.issuer.rfc4514_string(),
    }
    _post(webhook, members)


def notify_failed(webhook: Webhook, enrolment: WebhookEnrolment, *, code: str, detail: str) -> None:
    """After it had allowed. Raises WebhookUnavailable."""
    _post(webhook, enrolment.members("failed") | {"code": code, "detail": detail[:_MAX_TEXT]})


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def sign_body(secret: bytes, body: bytes, *, at: int) -> str:
    """The header's value: seconds since 1970, and HMAC-SHA-256 over them, a dot and the body, in hex."""
    return f"t={at},v1={hmac.new(secret, f'{at}.'.encode() + body, hashlib.sha256).hexdigest()}"


def _post(webhook: Webhook, members: Mapping[str, object]) -> bytes:
    body = msgspec.json.encode(members)
    try:
        return asyncio.run(_send(webhook, body))
    except FetchFailed as exc:
        # Its address may hold a secret of the tenant's, and this goes to the log.
        raise WebhookUnavailable(f"It cannot be asked: {exc.why}", place=_PLACE) from exc


async def _send(webhook: Webhook, body: bytes) -> bytes:
    settings = webhook.settings
    headers = {
        "Content-Type": "application/json",
        SIGNATURE_HEADER: sign_body(webhook.secret, body, at=epoch_seconds()),
    }
    async with OutboundTransport(webhook.reach, tls=tls_context(settings.ca_certificate), connections=1) as transport:
        web = HttpClient(
            transport,
            step_seconds=settings.timeout_seconds,
            total_seconds=_STEPS * settings.timeout_seconds,
            redirects_most=0,
        )
        return await web.fetch(settings.url, most_bytes=_MAX_RESPONSE_BYTES, body=body, headers=headers)
