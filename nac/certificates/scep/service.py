"""Handles SCEP requests: decrypts and checks them, then issues a certificate or reports a failure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

from cryptography import x509
from sqlalchemy import CursorResult, Engine, Select, delete, func, select
from sqlalchemy.orm import Session

from nac.certificates import repository as certificates
from nac.certificates.enrolment.certificate_enrolment import enrol, renew, require_renewable, resolve_names
from nac.certificates.enrolment.service import EnrolmentSecretText
from nac.certificates.issuance import ClientProfile, issue_client
from nac.certificates.scep.webhook_client import Permit
from nac.certificates.signing import SigningContext
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import AdmitError, InvalidInput
from nac.kit.ids import TenantId
from nac.models import Certificate, EnrolmentSecret, ScepTransaction, Tenant
from pki import scep
from pki.cms_envelopes import Envelope, Recipient, find_recipient, open_envelope, read_envelope
from pki.errors import AlgorithmRefused, KeyNotAllowed, PkiError
from pki.keys import is_same_public_key, public_key_digest
from pki.scep import FailInfo
from pki.signing_requests import SigningRequest, read_signing_request

# Message for all failures inside the envelope. From different messages, an attacker who modifies a captured envelope
# could learn about its content.
_UNREADABLE_ENVELOPE = "The envelope cannot be decrypted or has no valid certificate request."
# Time that Admit keeps SCEP transactions. Devices retry for minutes and poll for days.
RETENTION = timedelta(days=30)


class ScepMessageDamaged(InvalidInput):
    """The request is not a valid SCEP message."""

    status = 400


class ScepRefused(AdmitError):
    """The SCEP request is rejected."""

    # SCEP reports failures in failInfo, not as HTTP status (RFC 8894 4.1).
    status = 200

    def __init__(self, fail_info: FailInfo, detail: str) -> None:
        self.fail_info: FailInfo = fail_info
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class AddressedMessage:
    """A verified message, and the registration authority with whose key it is encrypted."""

    message: scep.ScepRequest
    responder: scep.ScepResponder
    envelope: Envelope
    recipient: Recipient


@dataclass(frozen=True, slots=True)
class OpenedMessage:
    """The decrypted content of a PKCSReq or RenewalReq."""

    message: scep.ScepRequest
    # Certificate request (PKCS#10, DER).
    certificate_request: bytes
    signing_request: SigningRequest
    challenge: str = field(repr=False)

    @property
    def public_key_sha256(self) -> bytes:
        return public_key_digest(self.signing_request.public_key)


def build_scep_url(public_url: str, slug: str) -> str:
    """Return the enrolment URL of a tenant."""
    return f"{public_url}/scep/{slug}"


def read_message(data: bytes) -> scep.ScepRequest:
    """Parse a SCEP message. Raises ScepMessageDamaged if the message is too damaged for a SCEP response."""
    try:
        return scep.read_request(data)
    except PkiError as exc:
        raise ScepMessageDamaged(str(exc), place="message") from exc


def address_message(message: scep.ScepRequest, responders: Sequence[scep.ScepResponder]) -> AddressedMessage:
    """Verify the message, and find the registration authority with whose key it is encrypted. Raises ScepRefused."""
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
        "badMessageCheck",
        "The envelope is for another registration authority. Fetch the current certificates with GetCACert.",
    )


def open_message(addressed: AddressedMessage) -> OpenedMessage:
    """Decrypt and check a PKCSReq or RenewalReq. Raises ScepRefused."""
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
        # Either a device copied another device's envelope, or it sent a renewal as a first enrolment.
        raise ScepRefused(
            "badMessageCheck",
            "The message is not signed with the key of the certificate request that the message contains.",
        )
    return OpenedMessage(message, content, signing_request, challenge)


def find_issued_certificate(
    session: Session, *, tenant_id: TenantId, opened: OpenedMessage, renews_id: UUID | None = None
) -> x509.Certificate | None:
    """Return the certificate that Admit issued for an earlier request with this transaction id and key, or None.

    Locks the key until the transaction ends. Raises ScepRefused if the certificate is no longer valid.
    """
    if not certificates.is_key_certified(session, tenant_id, opened.public_key_sha256):
        return None
    row = _find_certificate(
        session,
        tenant_id,
        transaction_id=opened.message.transaction_id,
        public_key_sha256=opened.public_key_sha256,
        renews_id=renews_id,
    )
    return None if row is None else _require_usable(row)


def _require_usable(row: Certificate) -> x509.Certificate:
    if row.status != "valid" or row.certificate_der is None:
        raise ScepRefused("badRequest", f"The certificate of this transaction is {row.status}. Enrol with a new key.")
    return x509.load_der_x509_certificate(row.certificate_der)


def poll_certificate(session: Session, *, tenant_id: TenantId, message: scep.ScepRequest) -> x509.Certificate:
    """Return the certificate of a transaction (CertPoll, RFC 8894 3.3.3).

    The message must be signed with the certificate's key. Raises ScepRefused.
    """
    row = _find_newest_certificate(
        session,
        tenant_id,
        transaction_id=message.transaction_id,
        public_key_sha256=public_key_digest(message.signer.public_key()),
    )
    if row is None:
        raise ScepRefused("badCertId", "This transaction has no certificate.")
    return _require_usable(row)


def is_own_challenge(challenge: str) -> bool:
    """Whether the challenge is an Admit enrolment secret. The tenant's webhook checks all other challenges."""
    return EnrolmentSecretText.parse(challenge) is not None


def split_challenge(challenge: str) -> tuple[str, str]:
    """Split a challenge into public id and secret. Returns empty strings for a challenge that Admit did not create."""
    token = EnrolmentSecretText.parse(challenge)
    return (token.public_id, token.secret) if token else ("", "")


def enrol_with_secret(
    session: Session,
    *,
    actor: str,
    opened: OpenedMessage,
    secret: EnrolmentSecret,
    signing: SigningContext,
    now: datetime,
) -> x509.Certificate:
    """Issue a certificate for `secret`. The caller has redeemed the secret in this transaction.

    Raises NameRefused, DuplicateKey or CertificateRefused.
    """
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
    signing: SigningContext,
    now: datetime,
) -> x509.Certificate:
    """Issue a certificate that the webhook permitted. Raises NameRefused, DuplicateKey or CertificateRefused."""
    common_name, sans = resolve_names(permit, opened.signing_request)
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
    """Return the certificate whose key signed the request. Raises RenewalRefused if the certificate cannot be
    renewed."""
    return require_renewable(session, tenant_id=tenant_id, shown=opened.message.signer, now=now)


def renew_certificate(
    session: Session, *, actor: str, opened: OpenedMessage, old: Certificate, signing: SigningContext, now: datetime
) -> x509.Certificate:
    """Renew the certificate `old`. Raises NameRefused, RenewalKeepsKey, DuplicateKey or CertificateRefused."""
    issued = renew(session, actor=actor, old=old, request=opened.signing_request, signing=signing, now=now)
    _record_transaction(session, old.tenant_id, opened, issued.serial, renews_id=old.id)
    return issued.certificate


def prune_transactions(*, engine: Engine | None = None) -> int:
    """Delete SCEP transactions of all tenants that are older than RETENTION, and return their number.

    Does not delete certificates. Requires the database role admit_worker. Uses one database transaction per tenant.
    Repeated and concurrent calls are safe.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    deleted = 0
    for tenant_id in tenants:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            old = delete(ScepTransaction).where(
                ScepTransaction.tenant_id == tenant_id, ScepTransaction.created_at < func.now() - RETENTION
            )
            result = session.execute(old, execution_options={"synchronize_session": False})
            assert isinstance(result, CursorResult)
            deleted += result.rowcount
    return deleted


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


def _find_certificate(
    session: Session, tenant_id: TenantId, *, transaction_id: str, public_key_sha256: bytes, renews_id: UUID | None
) -> Certificate | None:
    """Return the certificate of an earlier request with this transaction id, key and renewed certificate, or None."""
    query = _certificates_of_transaction(tenant_id, transaction_id, public_key_sha256)
    return session.scalar(query.where(ScepTransaction.renews_id.is_not_distinct_from(renews_id)).limit(1))


def _find_newest_certificate(
    session: Session, tenant_id: TenantId, *, transaction_id: str, public_key_sha256: bytes
) -> Certificate | None:
    """Return the newest certificate of a transaction, from an enrolment or renewal."""
    return session.scalar(_certificates_of_transaction(tenant_id, transaction_id, public_key_sha256).limit(1))


def _certificates_of_transaction(
    tenant_id: TenantId, transaction_id: str, public_key_sha256: bytes
) -> Select[Certificate]:
    query = select(Certificate).join(ScepTransaction, ScepTransaction.certificate_id == Certificate.id)
    return query.where(
        ScepTransaction.tenant_id == tenant_id,
        ScepTransaction.transaction_id == transaction_id,
        Certificate.tenant_id == tenant_id,
        Certificate.public_key_sha256 == public_key_sha256,
    ).order_by(ScepTransaction.created_at.desc())
