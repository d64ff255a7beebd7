"""Handles one PKIOperation of SCEP, with transactions and webhook calls."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus

from cryptography import x509
from fastapi import Request

from api.application_state import get_guess_limiter, get_signing
from api.enrolment_transactions import client_address, open_renewal, redeem_secret
from nac.certificates.enrolment.errors import SecretRefused
from nac.certificates.scep import registration_authority, service, webhook_client, webhook_config
from nac.certificates.scep.service import AddressedMessage, OpenedMessage, ScepRefused
from nac.certificates.scep.webhook_client import Denial, Webhook, WebhookEnrolment, WebhookUnavailable
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.kit.settings import Settings
from pki import scep

_log = logging.getLogger("admit.scep")
# Error for devices. It is the same for wrong secrets and for challenges that a webhook rejects.
_CHALLENGE_REJECTED = "Invalid challenge. Ask your administrator for a new one."


@dataclass(frozen=True, slots=True)
class ScepReply:
    # The CertRep message (RFC 8894 3.3.2), in DER.
    message: bytes
    # Function to call after the response was sent; None for nothing.
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
        """Return the address of the client."""
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
            # A concurrent duplicate finds its challenge used by the first request.
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

    def _notify_webhook(self, tell: Callable[[], None]) -> None:
        """Notify the webhook. Failures are only logged, because the certificate exists already."""
        try:
            tell()
        except WebhookUnavailable as exc:
            _log.warning("tenant %s: cannot notify the webhook of the end of an enrolment: %s", self.slug, exc)
