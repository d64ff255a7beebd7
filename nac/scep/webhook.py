"""Asking a tenant's own server about a challenge, and telling it how the enrolment ended (contract: docs/scep.md).

Over HTTPS alone, to permitted addresses alone (the one that was checked is the one that is connected to), without
following redirects. Each body is signed, so that the server knows who asks.
"""

import base64
import hashlib
import hmac
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

import httpx
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from nac.clock import epoch_seconds
from nac.errors import Unavailable
from nac.identities.reach import REMEDY, Reach
from nac.scep.settings import WebhookSettings, tls_context, why_not
from pki.errors import NameNotAllowed
from pki.names import San, parse_san
from pki.requests import SigningRequest

SIGNATURE_HEADER = "Admit-Signature"
_VERSION = 1
_ANSWER_BYTES_MOST = 64 * 1024
_TEXT_MOST = 200
_WAITING_MOST = 4
_PLACE = "SCEP webhook"


class WebhookUnavailable(Unavailable):
    """The server that knows this challenge does not answer as it should."""


@dataclass(frozen=True, slots=True)
class Webhook:
    settings: WebhookSettings
    # Where the platform connects to.
    reach: Reach
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Enrolment:
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


class Answer(msgspec.Struct, frozen=True):
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


class _Places:
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


_places = _Places(_WAITING_MOST)


def ask(webhook: Webhook, enrolment: Enrolment, challenge: str, request: SigningRequest) -> Permit | Denial:
    """Raises WebhookUnavailable where there is no answer that can be relied on."""
    members = enrolment.members("validate") | {
        "challenge": challenge,
        "common_name": request.common_name,
        "sans": [str(item) for item in request.sans],
    }
    try:
        with _places.one(enrolment.tenant):
            said = _post(webhook, members)
        answer = msgspec.json.decode(said, type=Answer)
        sans = tuple(map(parse_san, answer.sans))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, NameNotAllowed) as exc:
        raise WebhookUnavailable(f"Its answer is not one of the contract: {exc}", place=_PLACE) from exc
    if answer.decision == "deny":
        return Denial(answer.reason[:_TEXT_MOST])
    if not answer.common_name and not sans:
        raise WebhookUnavailable("It allows, but names nobody.", place=_PLACE)
    return Permit(answer.common_name or None, _texts(sans))


def _texts(sans: tuple[San, ...]) -> tuple[str, ...]:
    return tuple(map(str, sans))


def tell_issued(webhook: Webhook, enrolment: Enrolment, certificate: x509.Certificate) -> None:
    """Raises WebhookUnavailable."""
    # Intune keys its record by the SHA-1 thumbprint; nothing here trusts in it.
    sha1 = certificate.fingerprint(hashes.SHA1())  # noqa: S303
    members = enrolment.members("issued") | {
        "serial_number": f"{certificate.serial_number:x}",
        "thumbprint_sha1": sha1.hex(),
        "thumbprint_sha256": certificate.fingerprint(hashes.SHA256()).hex(),
        "not_after": _moment(certificate.not_valid_after_utc),
        "issuer": certificate.issuer.rfc4514_string(),
    }
    _post(webhook, members)


def tell_failed(webhook: Webhook, enrolment: Enrolment, *, code: str, detail: str) -> None:
    """After it had allowed. Raises WebhookUnavailable."""
    _post(webhook, enrolment.members("failed") | {"code": code, "detail": detail[:_TEXT_MOST]})


def _moment(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def sign(secret: bytes, body: bytes, *, at: int) -> str:
    """The header's value: seconds since 1970, and HMAC-SHA-256 over them, a dot and the body, in hex."""
    return f"t={at},v1={hmac.new(secret, f'{at}.'.encode() + body, hashlib.sha256).hexdigest()}"


def _post(webhook: Webhook, members: Mapping[str, object]) -> bytes:
    settings = webhook.settings
    body = msgspec.json.encode(members)
    parts = urlsplit(settings.url)
    host = parts.hostname or ""
    address = _permitted_address(webhook, host, parts.port or 443)
    url = httpx.URL(settings.url).copy_with(host=address)
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        SIGNATURE_HEADER: sign(webhook.secret, body, at=epoch_seconds()),
    }
    try:
        with (
            httpx.Client(
                verify=tls_context(settings), timeout=settings.timeout_seconds, trust_env=False, follow_redirects=False
            ) as client,
            client.stream("POST", url, content=body, headers=headers, extensions={"sni_hostname": host}) as reply,
        ):
            if reply.status_code != httpx.codes.OK:
                raise WebhookUnavailable(f"It answers with HTTP status {reply.status_code}.", place=_PLACE)
            return _bounded(reply, settings.timeout_seconds)
    except (httpx.HTTPError, OSError) as exc:
        raise WebhookUnavailable(f"It cannot be asked: {exc or type(exc).__name__}", place=_PLACE) from exc


def _bounded(reply: httpx.Response, seconds: float) -> bytes:
    answer = b""
    end = time.monotonic() + seconds
    for chunk in reply.iter_bytes():
        answer += chunk
        if time.monotonic() > end:
            raise WebhookUnavailable("Its answer is too slow in coming.", place=_PLACE)
        if len(answer) > _ANSWER_BYTES_MOST:
            raise WebhookUnavailable("Its answer is longer than the contract's.", place=_PLACE)
    return answer


def _permitted_address(webhook: Webhook, host: str, port: int) -> str:
    """All of the host's addresses must be permitted: which one the next look-up gives is not ours to choose."""
    try:
        found = {str(address[4][0]) for address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as exc:
        raise WebhookUnavailable(f"The name {host} has no address.", place=_PLACE) from exc
    whys = [why for address in sorted(found) if (why := why_not(webhook.settings, address, webhook.reach))]
    if whys:
        raise WebhookUnavailable(f"{host}: {'; '.join(whys)}.", place=_PLACE, remedy=REMEDY)
    return min(found)
