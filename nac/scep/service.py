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
from nac.scep.webhook_client import Permit
from pki import scep
from pki.cms_envelopes import Envelope, Recipient, find_recipient, open_envelope, read_envelope
from pki.errors import AlgorithmRefused, KeyNotAllowed, PkiError
from pki.keys import is_same_public_key, public_key_digest
from pki.signing_requests import SigningRequest, read_signing_request

# One answer for all that can be wrong between the envelope's key and the request's own signature: whoever sends a
# stranger's envelope, changed, learns nothing of what is in it.
_UNREADABLE_ENVELOPE = "The envelope cannot be opened, or holds no certificate request that is signed by its own key."


@dataclass(frozen=True, slots=True)
class AddressedMessage:
    """A proven message for one of the registration authorities, which answers it."""

    message: scep.ScepRequest
    responder: scep.ScepResponder
    envelope: Envelope
    recipient: Recipient


@dataclass(frozen=True, slots=True)
class OpenedMessage:
    """What the envelope of a PKCSReq or RenewalReq held."""

    message: scep.ScepRequest
    # PKCS#10 in DER.
    certificate_request: bytes
    signing_request: SigningRequest
    challenge: str = field(repr=False)

    @property
    def public_key_sha256(self) -> bytes:
        return public_key_digest(self.signing_request.public_key)


def build_scep_url(public_url: str, slug: str) -> str:
    """Where a tenant's devices enrol."""
    return f"{public_url}/scep/{slug}"


def read_message(data: bytes) -> scep.ScepRequest:
    """Raises ScepMessageDamaged where nothing could be answered in SCEP's own terms."""
    try:
        return scep.read_request(data)
    except PkiError as exc:
        raise ScepMessageDamaged(str(exc), place="message") from exc


def address_message(message: scep.ScepRequest, responders: Sequence[scep.ScepResponder]) -> AddressedMessage:
    """The message, proven, with the one of the responders that it was encrypted to. Raises ScepRefused."""
    try:
        message.require_proven()
        envelope = read_envelope(message.envelope)
        for responder in responders:
            if recipient := find_recipient(envelope, responder.certificate):
                return AddressedMessage(message, responder, envelope, recipient)
    except AlgorithmRefused as exc:
        raise ScepRefused("badAlg", str(exc)) from exc
    except PkiError as exc:
        raise ScepRefused("badMessageCheck", str(exc)) from exc
    raise ScepRefused(
        "badMessageCheck", "The envelope is for another registration authority; ask this one with GetCACert."
    )


def open_message(addressed: AddressedMessage) -> OpenedMessage:
    """Of a PKCSReq or RenewalReq. Raises ScepRefused."""
    message = addressed.message
    try:
        content = open_envelope(addressed.envelope, addressed.recipient, addressed.responder.key)
        signing_request = read_signing_request(content)
        challenge = scep.read_challenge(content)
    except (AlgorithmRefused, KeyNotAllowed) as exc:
        raise ScepRefused("badAlg", str(exc)) from exc
    except PkiError as exc:
        raise ScepRefused("badMessageCheck", _UNREADABLE_ENVELOPE) from exc
    first = message.message_type == "PKCSReq"
    if first and not is_same_public_key(signing_request.public_key, message.signer.public_key()):
        # Somebody else's envelope, or a renewal that calls itself a first enrolment.
        raise ScepRefused("badMessageCheck", "The message is not signed with the key of its certificate request.")
    return OpenedMessage(message, content, signing_request, challenge)


def find_issued_certificate(
    session: Session, *, tenant_id: TenantId, opened: OpenedMessage, renews_id: UUID | None = None
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
    return None if row is None else _require_usable(row)


def _require_usable(row: Certificate) -> x509.Certificate:
    if row.status != "valid" or row.certificate_der is None:
        raise ScepRefused("badRequest", f"The certificate of this transaction is {row.status}; enrol with a new key.")
    return x509.load_der_x509_certificate(row.certificate_der)


def poll_certificate(session: Session, *, tenant_id: TenantId, message: scep.ScepRequest) -> x509.Certificate:
    """The certificate of a transaction, for the holder of its key (CertPoll, RFC 8894 3.3.3). Raises ScepRefused."""
    row = repository.find_newest_certificate(
        session,
        tenant_id,
        transaction_id=message.transaction_id,
        public_key_sha256=public_key_digest(message.signer.public_key()),
    )
    if row is None:
        raise ScepRefused("badCertId", "There is no certificate of this transaction.")
    return _require_usable(row)


def is_own_challenge(challenge: str) -> bool:
    """Whether the challenge has the form of those that are made here; others are for the tenant's webhook."""
    return Token.parse(challenge) is not None


def split_challenge(challenge: str) -> tuple[str, str]:
    """The parts of one of ours; of another nothing, which names no secret and may be written down."""
    token = Token.parse(challenge)
    return (token.public_id, token.secret) if token else ("", "")


def enrol_with_secret(
    session: Session, *, actor: str, opened: OpenedMessage, secret: EnrolmentSecret, signing: Signing, now: datetime
) -> x509.Certificate:
    """By a challenge that was redeemed in this transaction. Raises NameRefused, DuplicateKey, CertificateRefused."""
    issued = enrol(session, actor=actor, secret=secret, request=opened.signing_request, signing=signing, now=now)
    _record_transaction(session, secret.tenant_id, opened, issued.serial, renews_id=None)
    return issued.certificate


def enrol_with_permit(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    opened: OpenedMessage,
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
    _record_transaction(session, tenant_id, opened, issued.serial, renews_id=None)
    return issued.certificate


def require_renewable_certificate(
    session: Session, *, tenant_id: TenantId, opened: OpenedMessage, now: datetime
) -> Certificate:
    """The certificate that signed the request, if it may be renewed. Raises RenewalRefused."""
    return require_renewable(session, tenant_id=tenant_id, shown=opened.message.signer, now=now)


def renew_certificate(
    session: Session, *, actor: str, opened: OpenedMessage, old: Certificate, signing: Signing, now: datetime
) -> x509.Certificate:
    """Raises NameRefused, RenewalKeepsKey, DuplicateKey, CertificateRefused."""
    issued = renew(session, actor=actor, old=old, request=opened.signing_request, signing=signing, now=now)
    _record_transaction(session, old.tenant_id, opened, issued.serial, renews_id=old.id)
    return issued.certificate


def _record_transaction(
    session: Session, tenant_id: TenantId, opened: OpenedMessage, serial: bytes, *, renews_id: UUID | None
) -> None:
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
