"""What a SCEP request is given: opened, checked, and answered with a certificate or the reason why not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast
from uuid import UUID

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository as certificates
from nac.certificates.issuing import ClientProfile, issue_client
from nac.certificates.signing import Signing
from nac.enrolment.enrolling import agreed_names, enrol, renew, require_renewable
from nac.enrolment.tokens import Token
from nac.ids import TenantId
from nac.models import Certificate, EnrolmentSecret, ScepTransaction
from nac.scep import repository
from nac.scep.errors import ScepMessageDamaged, ScepRefused
from nac.scep.webhook import Permit
from pki import scep
from pki.cms_envelopes import Envelope, Recipient, open_envelope, read_envelope, recipient_of
from pki.errors import AlgorithmRefused, KeyNotAllowed, PkiError
from pki.keys import public_key_digest, same_public_key
from pki.requests import SigningRequest, read_signing_request

# One answer for all that can be wrong between the envelope's key and the request's own signature: whoever sends a
# stranger's envelope, changed, learns nothing of what is in it.
_CANNOT_BE_OPENED = "The envelope cannot be opened, or holds no certificate request that is signed by its own key."


@dataclass(frozen=True, slots=True)
class Addressed:
    """A proven message for one of the registration authorities, which answers it."""

    message: scep.Request
    responder: scep.Responder
    envelope: Envelope
    recipient: Recipient


@dataclass(frozen=True, slots=True)
class Opened:
    """What the envelope of a PKCSReq or RenewalReq held."""

    message: scep.Request
    # PKCS#10 in DER.
    certificate_request: bytes
    signing_request: SigningRequest
    challenge: str = field(repr=False)

    @property
    def public_key_sha256(self) -> bytes:
        return public_key_digest(self.signing_request.public_key)


def address_of(public_url: str, slug: str) -> str:
    """Where a tenant's devices enrol."""
    return f"{public_url}/scep/{slug}"


def read_message(data: bytes) -> scep.Request:
    """Raises ScepMessageDamaged where nothing could be answered in SCEP's own terms."""
    try:
        return scep.read_request(data)
    except PkiError as exc:
        raise ScepMessageDamaged(str(exc), place="message") from exc


def address(message: scep.Request, responders: Sequence[scep.Responder]) -> Addressed:
    """The message, proven, with the one of the responders that it was encrypted to. Raises ScepRefused."""
    try:
        message.require_proven()
        envelope = read_envelope(message.envelope)
        for responder in responders:
            if recipient := recipient_of(envelope, responder.certificate):
                return Addressed(message, responder, envelope, recipient)
    except AlgorithmRefused as exc:
        raise ScepRefused("badAlg", str(exc)) from exc
    except PkiError as exc:
        raise ScepRefused("badMessageCheck", str(exc)) from exc
    raise ScepRefused(
        "badMessageCheck", "The envelope is for another registration authority; ask this one with GetCACert."
    )


def open_message(addressed: Addressed) -> Opened:
    """Of a PKCSReq or RenewalReq. Raises ScepRefused."""
    message = addressed.message
    try:
        content = open_envelope(addressed.envelope, addressed.recipient, addressed.responder.key)
        signing_request = read_signing_request(content)
        challenge = scep.challenge_of(content)
    except (AlgorithmRefused, KeyNotAllowed) as exc:
        raise ScepRefused("badAlg", str(exc)) from exc
    except PkiError as exc:
        raise ScepRefused("badMessageCheck", _CANNOT_BE_OPENED) from exc
    first = message.message_type == "PKCSReq"
    if first and not same_public_key(signing_request.public_key, message.signer.public_key()):
        # Somebody else's envelope, or a renewal that calls itself a first enrolment.
        raise ScepRefused("badMessageCheck", "The message is not signed with the key of its certificate request.")
    return Opened(message, content, signing_request, challenge)


def issued_before(
    session: Session, *, tenant_id: TenantId, opened: Opened, renews_id: UUID | None = None
) -> x509.Certificate | None:
    """What the same request led to when it came before. Raises ScepRefused where that is no longer good.

    Until the transaction ends, nobody else asks for the same key.
    """
    if not certificates.is_certified(session, tenant_id, opened.public_key_sha256):
        return None
    row = repository.find_certificate(
        session,
        tenant_id,
        transaction_id=opened.message.transaction_id,
        public_key_sha256=opened.public_key_sha256,
        renews_id=renews_id,
    )
    return None if row is None else _usable(row)


def _usable(row: Certificate) -> x509.Certificate:
    if row.status != "valid" or row.certificate_der is None:
        raise ScepRefused("badRequest", f"The certificate of this transaction is {row.status}; enrol with a new key.")
    return x509.load_der_x509_certificate(row.certificate_der)


def poll(session: Session, *, tenant_id: TenantId, message: scep.Request) -> x509.Certificate:
    """The certificate of a transaction, for the holder of its key (CertPoll, RFC 8894 3.3.3). Raises ScepRefused."""
    row = repository.newest_certificate(
        session,
        tenant_id,
        transaction_id=message.transaction_id,
        public_key_sha256=public_key_digest(message.signer.public_key()),
    )
    if row is None:
        raise ScepRefused("badCertId", "There is no certificate of this transaction.")
    return _usable(row)


def is_ours(challenge: str) -> bool:
    """Whether the challenge has the form of those that are made here; others are for the tenant's webhook."""
    return Token.parse(challenge) is not None


def name_and_secret(challenge: str) -> tuple[str, str]:
    """The parts of one of ours; of another nothing, which names no secret and may be written down."""
    token = Token.parse(challenge)
    return (token.public_id, token.secret) if token else ("", "")


def enrol_with_secret(
    session: Session, *, actor: str, opened: Opened, secret: EnrolmentSecret, signing: Signing, now: datetime
) -> x509.Certificate:
    """By a challenge that was redeemed in this transaction. Raises NameRefused, DuplicateKey, CertificateRefused."""
    issued = enrol(session, actor=actor, secret=secret, request=opened.signing_request, signing=signing, now=now)
    _remember(session, secret.tenant_id, opened, issued.serial, renews_id=None)
    return issued.certificate


def enrol_with_permit(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    opened: Opened,
    permit: Permit,
    profile: str,
    signing: Signing,
    now: datetime,
) -> x509.Certificate:
    """By the word of the tenant's webhook. Raises NameRefused, DuplicateKey, CertificateRefused."""
    common_name, sans = agreed_names(permit, opened.signing_request)
    issued = issue_client(
        session,
        actor=actor,
        tenant_id=tenant_id,
        profile=cast(ClientProfile, profile),
        common_name=common_name,
        sans=sans,
        public_key=opened.signing_request.public_key,
        signing=signing,
        now=now,
    )
    _remember(session, tenant_id, opened, issued.serial, renews_id=None)
    return issued.certificate


def renewable(session: Session, *, tenant_id: TenantId, opened: Opened, now: datetime) -> Certificate:
    """The certificate that signed the request, if it may be renewed. Raises RenewalRefused."""
    return require_renewable(session, tenant_id=tenant_id, shown=opened.message.signer, now=now)


def renew_certificate(
    session: Session, *, actor: str, opened: Opened, old: Certificate, signing: Signing, now: datetime
) -> x509.Certificate:
    """Raises NameRefused, RenewalKeepsKey, DuplicateKey, CertificateRefused."""
    issued = renew(session, actor=actor, old=old, request=opened.signing_request, signing=signing, now=now)
    _remember(session, old.tenant_id, opened, issued.serial, renews_id=old.id)
    return issued.certificate


def _remember(session: Session, tenant_id: TenantId, opened: Opened, serial: bytes, *, renews_id: UUID | None) -> None:
    row = certificates.get_by_serial(session, tenant_id, serial)
    assert row is not None
    session.add(
        ScepTransaction(
            tenant_id=tenant_id,
            transaction_id=opened.message.transaction_id,
            certificate_id=row.id,
            renews_id=renews_id,
        )
    )
    session.flush()
