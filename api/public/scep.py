"""SCEP (RFC 8894), by which devices request certificates with challenges, and renew certificates."""

import base64
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated

from cryptography import x509
from fastapi import APIRouter, Depends, Request, Response
from starlette.background import BackgroundTask

from api.application_state import get_guess_limiter, get_signing
from api.bodies import require_bounded_body
from api.enrolment_transactions import client_address, open_renewal, redeem_secret, require_tenant_by_slug
from nac.certificates.enrolment.errors import SecretRefused
from nac.certificates.scep import registration_authority, service, webhook_client, webhook_config
from nac.certificates.scep.service import AddressedMessage, OpenedMessage, ScepMessageDamaged, ScepRefused
from nac.certificates.scep.webhook_client import Denial, Webhook, WebhookEnrolment, WebhookUnavailable
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.kit.settings import Settings
from pki import scep
from pki.cms import MAX_MESSAGE_BYTES
from pki.scep import CAPABILITIES

_log = logging.getLogger("admit.scep")
# Error for devices, both for wrong secrets and for challenges that a webhook rejects.
_CHALLENGE_REJECTED = "Invalid challenge. Ask your administrator for a new one."


@dataclass(frozen=True, slots=True)
class ScepReply:
    # The CertRep message (RFC 8894 3.3.2), in DER.
    message: bytes
    # Function to call after the response was sent; None for no call.
    afterwards: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class _IssuedCertificate:
    certificate: x509.Certificate
    afterwards: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class ScepFlow:
    """SCEP service of a tenant for one request."""

    tenant_id: TenantId
    slug: str
    request: Request

    @property
    def signing(self) -> SigningContext:
        return get_signing(self.request)

    @property
    def source(self) -> str:
        return client_address(self.request)

    def authorities(self) -> bytes:
        """Response of GetCACert (RFC 8894 4.2.1.2)."""
        with session_scope(TenantScope(self.tenant_id)) as session:
            current, *_ = registration_authority.ensure_registration_authority(
                session, tenant_id=self.tenant_id, signing=self.signing, now=utc_now()
            )
            return registration_authority.get_ca_certificates(session, current)

    def run_pki_operation(self, data: bytes) -> ScepReply:
        """Respond with a CertRep. Raises ScepMessageDamaged, TooManyGuesses and errors with status 500 and above."""
        message = service.read_message(data)
        now = utc_now()
        with session_scope(TenantScope(self.tenant_id)) as session:
            rows = registration_authority.ensure_registration_authority(
                session, tenant_id=self.tenant_id, signing=self.signing, now=now
            )
        responders = [registration_authority.build_responder(row, self.signing) for row in rows]
        answering = responders[0]
        try:
            addressed = service.address_message(message, responders)
            answering = addressed.responder
            given = self._serve(addressed, now)
        except ScepRefused as exc:
            return ScepReply(self._refuse(message, exc, answering))
        return ScepReply(
            scep.build_success(message, given.certificate, answering, addressed.envelope.cipher), given.afterwards
        )

    def _refuse(self, message: scep.ScepRequest, refused: ScepRefused, responder: scep.ScepResponder) -> bytes:
        _log.warning(
            "tenant %s, transaction %s: rejected %s of %s: %s: %s",
            self.slug,
            message.transaction_id,
            message.message_type,
            self.source,
            refused.fail_info,
            refused.detail,
        )
        return scep.build_failure(message, refused.fail_info, refused.detail, responder)

    def _serve(self, addressed: AddressedMessage, now: datetime) -> _IssuedCertificate:
        """Raises ScepRefused."""
        try:
            match addressed.message.message_type:
                case "PKCSReq":
                    return self._enrol(service.open_message(addressed), now)
                case "RenewalReq":
                    return _IssuedCertificate(self._renew(service.open_message(addressed), now))
                case "CertPoll":
                    with session_scope(TenantScope(self.tenant_id)) as session:
                        return _IssuedCertificate(
                            service.poll_certificate(session, tenant_id=self.tenant_id, message=addressed.message)
                        )
                case "GetCert" | "GetCRL" as asked:
                    raise ScepRefused(
                        "badRequest", f"{asked} is not supported. Use the CRL or OCSP URL in the certificate."
                    )
        except WebhookUnavailable as exc:
            _log.warning("tenant %s: %s", self.slug, exc)
            raise ScepRefused("badRequest", "Admit cannot check the challenge now. Try again later.") from exc
        except AdmitError as exc:
            # Rate limits and internal errors are HTTP errors.
            if isinstance(exc, ScepRefused) or exc.status >= HTTPStatus.TOO_MANY_REQUESTS:
                raise
            raise ScepRefused("badRequest", str(exc)) from exc

    def _renew(self, opened: OpenedMessage, now: datetime) -> x509.Certificate:
        with open_renewal(
            self.request, tenant_id=self.tenant_id, actor=self._actor, shown=opened.message.signer
        ) as session:
            old = service.require_renewable_certificate(session, tenant_id=self.tenant_id, opened=opened, now=now)
            return service.find_issued_certificate(
                session, tenant_id=self.tenant_id, opened=opened, renews_id=old.id
            ) or service.renew_certificate(
                session, actor=self._actor, opened=opened, old=old, signing=self.signing, now=now
            )

    @property
    def _actor(self) -> str:
        return f"scep:{self.source}"

    def _enrol(self, opened: OpenedMessage, now: datetime) -> _IssuedCertificate:
        with session_scope(TenantScope(self.tenant_id)) as session:
            before = service.find_issued_certificate(session, tenant_id=self.tenant_id, opened=opened)
            settings: Settings = self.request.app.state.settings
            asked = webhook_config.get_webhook(
                session, tenant_id=self.tenant_id, sealer=self.signing.sealer, reach=settings.outbound_reach
            )
        if before is not None:
            return _IssuedCertificate(before)
        if opened.challenge and asked is not None and not service.is_own_challenge(opened.challenge):
            return self._enrol_by_webhook(opened, asked, now)
        return _IssuedCertificate(self._enrol_by_secret(opened, now))

    def _enrol_by_secret(self, opened: OpenedMessage, now: datetime) -> x509.Certificate:
        name, secret = service.split_challenge(opened.challenge)
        try:
            with redeem_secret(self.request, tenant_id=self.tenant_id, kind="scep", name=name, secret=secret) as (
                session,
                redeemed,
            ):
                return service.enrol_with_secret(
                    session, actor=self._actor, opened=opened, secret=redeemed, signing=self.signing, now=now
                )
        except SecretRefused as refused:
            # If a device sends a request twice at the same time, the other request may have used the challenge.
            with session_scope(TenantScope(self.tenant_id)) as session:
                before = service.find_issued_certificate(session, tenant_id=self.tenant_id, opened=opened)
            if before is None:
                raise ScepRefused("badRequest", _CHALLENGE_REJECTED) from refused
            return before

    def _enrol_by_webhook(self, opened: OpenedMessage, asked: Webhook, now: datetime) -> _IssuedCertificate:
        """Enrol with a webhook's approval. No transaction is open during the call of the webhook."""
        enrolment = WebhookEnrolment(self.slug, opened.message.transaction_id, opened.certificate_request, self.source)
        guesses = get_guess_limiter(self.request)
        guesses.require(self.tenant_id, self.source)
        said = webhook_client.ask_webhook(asked, enrolment, opened.challenge, opened.signing_request)
        if isinstance(said, Denial):
            guesses.note(self.tenant_id, self.source)
            raise ScepRefused("badRequest", said.reason or _CHALLENGE_REJECTED)
        try:
            with session_scope(TenantScope(self.tenant_id)) as session:
                certificate = service.find_issued_certificate(
                    session, tenant_id=self.tenant_id, opened=opened
                ) or service.enrol_with_permit(
                    session,
                    actor=self._actor,
                    tenant_id=self.tenant_id,
                    opened=opened,
                    permit=said,
                    profile=asked.settings.profile,
                    signing=self.signing,
                    now=now,
                )
        except AdmitError as exc:
            self._notify_webhook(
                partial(webhook_client.notify_failed, asked, enrolment, code=exc.code, detail=exc.detail)
            )
            raise
        told = partial(webhook_client.notify_issued, asked, enrolment, certificate)
        return _IssuedCertificate(certificate, partial(self._notify_webhook, told))

    def _notify_webhook(self, notify: Callable[[], None]) -> None:
        """Notify the webhook. Failures are only logged, because the certificate exists already."""
        try:
            notify()
        except WebhookUnavailable as exc:
            _log.warning("tenant %s: cannot notify the webhook of the end of an enrolment: %s", self.slug, exc)


router = APIRouter(tags=["scep"])

_MESSAGE_MEDIA_TYPE = "application/x-pki-message"
_AUTHORITIES_MEDIA_TYPE = "application/x-x509-ca-ra-cert"
# Old clients append `pkiclient.exe` to the URL.
_PATHS = ("/scep/{slug}", "/scep/{slug}/pkiclient.exe")
_NO_STORE = {"Cache-Control": "no-store"}


def require_scep_flow(request: Request, slug: str) -> ScepFlow:
    """SCEP service of the tenant; 404 if the tenant does not exist or is not active."""
    return ScepFlow(require_tenant_by_slug(slug), slug, request)


TenantScepFlow = Annotated[ScepFlow, Depends(require_scep_flow)]
MessageBody = Annotated[bytes, Depends(require_bounded_body(MAX_MESSAGE_BYTES))]


@router.get(_PATHS[0])
@router.get(_PATHS[1])
def get_operation(tenant: TenantScepFlow, operation: str = "", message: str = "") -> Response:
    match operation:
        case "GetCACaps":
            return Response("\n".join(CAPABILITIES) + "\n", media_type="text/plain", headers=_NO_STORE)
        case "GetCACert":
            return Response(tenant.authorities(), media_type=_AUTHORITIES_MEDIA_TYPE, headers=_NO_STORE)
        case "PKIOperation":
            return _run_operation(tenant, _decode_message(message))
        case _:
            raise ScepMessageDamaged(
                f"Unknown operation {operation[:40]!r}.",
                place="operation",
                remedy="Use one of: GetCACaps, GetCACert, PKIOperation.",
            )


@router.post(_PATHS[0])
@router.post(_PATHS[1])
def post_operation(tenant: TenantScepFlow, body: MessageBody, operation: str = "PKIOperation") -> Response:
    if operation != "PKIOperation":
        raise ScepMessageDamaged(
            "POST supports only PKIOperation.", place="operation", remedy="Send other operations with GET."
        )
    return _run_operation(tenant, body)


def _run_operation(tenant: ScepFlow, message: bytes) -> Response:
    answer = tenant.run_pki_operation(message)
    background = BackgroundTask(answer.afterwards) if answer.afterwards else None
    return Response(answer.message, media_type=_MESSAGE_MEDIA_TYPE, headers=_NO_STORE, background=background)


def _decode_message(message: str) -> bytes:
    """Decode the message (RFC 8894 4.1). An unescaped plus sign arrives as a space."""
    if len(message) > 4 * MAX_MESSAGE_BYTES // 3 + 4:
        raise ScepMessageDamaged("The message is too long.", place="message", remedy="Send the message with POST.")
    try:
        return base64.b64decode("".join(message.replace(" ", "+").split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ScepMessageDamaged("The message is not base64.", place="message") from exc
