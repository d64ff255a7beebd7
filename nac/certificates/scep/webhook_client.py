"""Client of a SCEP webhook: a tenant's server that checks challenges and receives the results of enrolments
(docs/how-to/scep.md).

The client uses HTTPS, connects only to permitted addresses, and follows no redirects. Admit signs each request body, so
that the server can verify the sender.
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

from nac.certificates.scep.settings import WebhookSettings
from nac.kit.clock import epoch_seconds
from nac.kit.errors import Unavailable
from nac.kit.outbound.http_client import FetchFailed, HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.kit.outbound.tls import tls_context
from pki.errors import NameNotAllowed
from pki.names import San, parse_san
from pki.signing_requests import SigningRequest

SIGNATURE_HEADER = "Admit-Signature"
_VERSION = 1
_MAX_RESPONSE_BYTES = 64 * 1024
_MAX_TEXT = 200
_MAX_WAITING = 4
# Number of steps in a request: connection, response headers, response body.
_STEPS = 3
_PLACE = "SCEP webhook"


class WebhookUnavailable(Unavailable):
    """The SCEP webhook does not respond correctly."""


@dataclass(frozen=True, slots=True)
class Webhook:
    settings: WebhookSettings
    # Addresses in the settings' networks to which Admit may connect.
    reach: OutboundReach
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookEnrolment:
    """A SCEP enrolment that the webhook permits or denies."""

    tenant: str
    transaction_id: str
    # Certificate request (PKCS#10, DER).
    certificate_request: bytes = field(repr=False)
    # IP address of the device.
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
    """The webhook's response. Admit ignores unknown members."""

    decision: Literal["allow", "deny"]
    reason: str = ""
    common_name: str = ""
    sans: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Permit:
    """The webhook permits the enrolment, with these names in the certificate."""

    common_name: str | None
    sans: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Denial:
    reason: str


class _ConcurrencyLimit:
    """Limits concurrent webhook requests per tenant, so that a slow server does not block other tenants."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, tenant: str) -> Iterator[None]:
        """Count a running request of the tenant until the `with` block ends. Raises WebhookUnavailable if the tenant
        already has the maximum number of running requests."""
        with self._lock:
            if self._taken[tenant] >= self._most:
                raise WebhookUnavailable(
                    f"{self._most} enrolments are already waiting for a response of the webhook.", place=_PLACE
                )
            self._taken[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[tenant] -= 1
                # Counter addition removes tenants whose count is zero.
                self._taken += Counter()


_concurrency_limit = _ConcurrencyLimit(_MAX_WAITING)


def ask_webhook(
    webhook: Webhook, enrolment: WebhookEnrolment, challenge: str, request: SigningRequest
) -> Permit | Denial:
    """Send the challenge to the webhook, and return the webhook's decision.

    Raises WebhookUnavailable if the webhook sends no valid response.
    """
    members = enrolment.members("validate") | {
        "challenge": challenge,
        "common_name": request.common_name,
        "sans": [str(item) for item in request.sans],
    }
    try:
        with _concurrency_limit.one(enrolment.tenant):
            body = _post(webhook, members)
        answer = msgspec.json.decode(body, type=WebhookResponse)
        sans = tuple(map(parse_san, answer.sans))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, NameNotAllowed) as exc:
        raise WebhookUnavailable(f"Invalid response of the webhook: {exc}", place=_PLACE) from exc
    if answer.decision == "deny":
        return Denial(answer.reason[:_MAX_TEXT])
    if not answer.common_name and not sans:
        raise WebhookUnavailable(
            "The webhook permits the enrolment, but the webhook's response has no name.", place=_PLACE
        )
    return Permit(answer.common_name or None, _san_texts(sans))


def _san_texts(sans: tuple[San, ...]) -> tuple[str, ...]:
    return tuple(map(str, sans))


def notify_issued(webhook: Webhook, enrolment: WebhookEnrolment, certificate: x509.Certificate) -> None:
    """Report an issued certificate to the webhook. Raises WebhookUnavailable."""
    # Intune identifies certificates by SHA-1 thumbprint. Admit does not use this thumbprint.
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
    """Report to the webhook that an enrolment failed after the webhook permitted it. Raises WebhookUnavailable."""
    _post(webhook, enrolment.members("failed") | {"code": code, "detail": detail[:_MAX_TEXT]})


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def sign_body(secret: bytes, body: bytes, *, at: int) -> str:
    """Return the signature header `t=<at>,v1=<mac>`. `at` is in epoch seconds.

    The MAC is the hexadecimal HMAC-SHA-256 of `at`, a dot and the body.
    """
    return f"t={at},v1={hmac.new(secret, f'{at}.'.encode() + body, hashlib.sha256).hexdigest()}"


def _post(webhook: Webhook, members: Mapping[str, object]) -> bytes:
    body = msgspec.json.encode(members)
    try:
        return asyncio.run(_send(webhook, body))
    except FetchFailed as exc:
        # Admit logs this message, so it must not contain the URL, which may contain a secret.
        raise WebhookUnavailable(f"The request to the webhook failed: {exc.why}", place=_PLACE) from exc


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
