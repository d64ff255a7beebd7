"""One PKIOperation of SCEP from message to answer: what is asked in which transaction, and whom else it takes."""

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
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import TenantScope, session_scope
from nac.enrolment.errors import SecretRefused
from nac.errors import AdmitError
from nac.ids import TenantId
from nac.scep import registration_authority, service, webhook_client, webhook_config
from nac.scep.errors import ScepRefused
from nac.scep.service import AddressedMessage, OpenedMessage
from nac.scep.webhook_client import Denial, Webhook, WebhookEnrolment, WebhookUnavailable
from nac.settings import Settings
from pki import scep

_log = logging.getLogger("admit.scep")
# What a device may be told of a challenge, whoever judged it.
_CHALLENGE_REJECTED = "The challenge is not accepted; ask your administrator for a new one."


@dataclass(frozen=True, slots=True)
class ScepReply:
    # CertRep.
    message: bytes
    # To be done once the answer has left; None for nothing.
    afterwards: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class _IssuedCertificate:
    certificate: x509.Certificate
    afterwards: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class ScepFlow:
    """Of one tenant, for one request."""

    tenant_id: TenantId
    slug: str
    request: Request

    @property
    def signing(self) -> Signing:
        return get_signing(self.request)

    @property
    def source(self) -> str:
        """Where the request came from."""
        return client_address(self.request)

    def authorities(self) -> bytes:
        """What GetCACert hands out (RFC 8894 4.2.1.2)."""
        with session_scope(TenantScope(self.tenant_id)) as session:
            current, *_ = registration_authority.ensure_registration_authority(
                session, tenant_id=self.tenant_id, signing=self.signing, now=utc_now()
            )
            return registration_authority.get_ca_certificates(session, current)

    def run_pki_operation(self, data: bytes) -> ScepReply:
        """Raises ScepMessageDamaged, TooManyGuesses, or an error of 500 and above: all else is a CertRep."""
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
            "tenant %s, transaction %s: %s of %s refused: %s: %s",
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
                        "badRequest", f"{asked} is not answered here: certificates name their list and responder."
                    )
        except WebhookUnavailable as exc:
            _log.warning("tenant %s: %s", self.slug, exc)
            raise ScepRefused("badRequest", "The challenge cannot be checked now; try again later.") from exc
        except AdmitError as exc:
            # Too many guesses are an answer of HTTP's, and what is our own fault is no refusal.
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
            # Of two of the same request at once, the second finds its challenge used by the first.
            with session_scope(TenantScope(self.tenant_id)) as session:
                before = service.find_issued_certificate(session, tenant_id=self.tenant_id, opened=opened)
            if before is None:
                raise ScepRefused("badRequest", _CHALLENGE_REJECTED) from refused
            return before

    def _enrol_by_webhook(self, opened: OpenedMessage, asked: Webhook, now: datetime) -> _IssuedCertificate:
        """No transaction is open while it is asked."""
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
            self._tell(partial(webhook_client.notify_failed, asked, enrolment, code=exc.code, detail=exc.detail))
            raise
        told = partial(webhook_client.notify_issued, asked, enrolment, certificate)
        return _IssuedCertificate(certificate, partial(self._tell, told))

    def _tell(self, tell: Callable[[], None]) -> None:
        """What became of it is told as well as can be: the certificate is out."""
        try:
            tell()
        except WebhookUnavailable as exc:
            _log.warning("tenant %s: the webhook was not told how an enrolment ended: %s", self.slug, exc)
