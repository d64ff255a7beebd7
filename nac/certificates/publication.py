"""Publication of revocation lists and OCSP signers by the worker, for active and retired authorities."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import delete, func, or_, select, text
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.errors import AuthorityNotFound, translate_pki_errors
from nac.certificates.profiles import require_profile
from nac.certificates.public_lookups import build_locations
from nac.certificates.signing import SigningContext, build_issuer
from nac.certificates.status_changes import STATUS_CHANNEL, build_revocation
from nac.core.audit import service as audit
from nac.kit.db import commit_intent
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, Certificate, CertificateAuthority, OcspSignerRow, RevocationList, RevocationWork
from pki.crl import Revocation, build_crl
from pki.issuance import issue
from pki.keys import generate_key, key_pem, load_key
from pki.names import read_organisation, subject_name
from pki.serials import random_serial, serial_bytes

# The worker signs a revocation list daily. Each list is valid for a week, so revocation lists stay valid even if the
# worker or a key store fails for days.
LIST_VALIDITY = timedelta(days=7)
LIST_INTERVAL = timedelta(days=1)
# A root's key may be offline for months (nac.certificates.offline_root), and its revocation list rarely changes.
ROOT_LIST_VALIDITY = timedelta(days=180)
SIGNER_PROFILE = "ocsp-signer"
# Minimum time between two lists of an authority. Revocations in quick succession are then published in one list.
MIN_LIST_INTERVAL = timedelta(seconds=2)
RETRY_AFTER = timedelta(minutes=1)

_DUE_SQL = text(
    "SELECT tenant_id, authority_id, list_due, list_scheduled, signer_due"
    " FROM status_work(:moment, :list_every, :which)"
)


class DuePublication(NamedTuple):
    tenant_id: UUID
    authority_id: UUID
    # Whether a list is due because of a status change.
    list_due: bool
    # Whether a list is due because of the schedule.
    list_scheduled: bool
    signer_due: bool


@dataclass(frozen=True, slots=True)
class PublicationResult:
    revocation_list: bool
    signer: bool


def list_due(session: Session, *, now: datetime, authority_id: UUID | None = None) -> Sequence[DuePublication]:
    """List the due revocation lists and OCSP signers of one authority, or of all authorities of all tenants."""
    parameters = {"moment": now, "list_every": LIST_INTERVAL, "which": authority_id}
    return [DuePublication(*row) for row in session.execute(_DUE_SQL, parameters)]


def publish_status(
    session: Session, *, actor: str, tenant_id: TenantId, authority_id: UUID, signing: SigningContext, now: datetime
) -> PublicationResult:
    """Publish the authority's revocation list and OCSP signer if they are due. Does nothing if another worker is
    publishing them.

    Requires a session in the tenant's scope. Commits the list's number and the signer's row before it signs. If a
    signature fails, Admit skips the number of the list, or the signer's row has no certificate. The worker then retries
    in its next run.
    """
    nothing = PublicationResult(revocation_list=False, signer=False)
    pending = list_due(session, now=now, authority_id=authority_id) if _try_lock(session, authority_id) else ()
    if not pending:
        return nothing
    authority = repository.get_authority(session, tenant_id, authority_id)
    if authority is None:
        raise AuthorityNotFound(place="authority")
    work = pending[0]
    publishing = _Publisher(session, actor, authority, signing, now)
    signer = publishing.reserve_signer() if work.signer_due else None
    number = None
    if work.list_due or work.list_scheduled:
        number = publishing.reserve_number(scheduled=work.list_scheduled)
    commit_intent(session)
    if not _try_lock(session, authority_id):
        return nothing
    signed = signer is not None and publishing.sign_signer(signer)
    made = number is not None and publishing.make_list(number, scheduled=work.list_scheduled)
    return PublicationResult(made, signed)


def _try_lock(session: Session, authority_id: UUID) -> bool:
    """Lock this authority's publication until the transaction ends. Returns False if another worker has the lock."""
    lock = func.pg_try_advisory_xact_lock(func.hashtext("status_work"), func.hashtext(str(authority_id)))
    return bool(session.scalar(select(lock)))


def postpone_publication(session: Session, *, tenant_id: TenantId, authority_id: UUID, now: datetime) -> None:
    """Delay the authority's next publication by a minute, after a failure."""
    row = _lock_list_row(session, tenant_id, authority_id)
    row.retry_at = now + RETRY_AFTER
    session.flush()


def _lock_list_row(session: Session, tenant_id: TenantId, authority_id: UUID) -> RevocationList:
    query = select(RevocationList).where(
        RevocationList.tenant_id == tenant_id, RevocationList.authority_id == authority_id
    )
    row = session.scalar(query.with_for_update().execution_options(populate_existing=True))
    if row is None:
        row = RevocationList(tenant_id=tenant_id, authority_id=authority_id)
        session.add(row)
        session.flush()
    return row


class _Publisher:
    """Publication of one authority's revocation list and OCSP signer."""

    def __init__(
        self, session: Session, actor: str, authority: CertificateAuthority, signing: SigningContext, now: datetime
    ) -> None:
        self._session = session
        self._actor = actor
        self._authority = authority
        self._signing = signing
        # Decrypt the authority's key first. If the key is unusable, no reservation is left behind.
        self._issuer = build_issuer(authority, signing)
        self._now = now.replace(microsecond=0)

    def reserve_signer(self) -> OcspSignerRow:
        """Add a row for a new OCSP signer. Deletes the rows of expired and unsigned signers."""
        authority, row = self._authority, OcspSignerRow
        self._session.execute(delete(row).where(row.authority_id == authority.id, row.not_after < self._now))
        unsigned = delete(row).where(row.authority_id == authority.id, row.certificate_der.is_(None))
        for serial in self._session.scalars(unsigned.returning(row.serial)):
            self._audit("authority.abandon-ocsp-signer", {"serial": serial.hex()})
        profile = require_profile(self._session, authority.tenant_id, SIGNER_PROFILE)
        signer_id = uuid4()
        made = OcspSignerRow(
            id=signer_id,
            tenant_id=authority.tenant_id,
            authority_id=authority.id,
            serial=serial_bytes(random_serial()),
            key_sealed=self._signing.sealer.seal(key_pem(generate_key(profile.key)), signer_context(signer_id)),
            not_before=self._now - profile.backdate,
            not_after=min(self._now + profile.validity, self._issuer.certificate.not_valid_after_utc),
        )
        self._session.add(made)
        self._session.flush()
        return made

    def sign_signer(self, reserved: OcspSignerRow) -> bool:
        """Issue the certificate of the OCSP signer. Returns False if another worker deleted the signer's row."""
        row = self._session.get(OcspSignerRow, reserved.id, with_for_update=True, populate_existing=True)
        if row is None:
            return False
        authority = self._authority
        key = load_key(self._signing.sealer.open(row.key_sealed, signer_context(row.id)), made_here=True)
        with translate_pki_errors():
            signer = issue(
                require_profile(self._session, authority.tenant_id, SIGNER_PROFILE),
                public_key=key.public_key(),
                subject=subject_name("OCSP signer", organisation=read_organisation(self._issuer.certificate.subject)),
                issuer=self._issuer,
                now=self._now,
                serial=int.from_bytes(row.serial),
                locations=build_locations(self._signing.public_url, authority.id),
                not_before=row.not_before,
                not_after=row.not_after,
            )
        row.certificate_der = signer.public_bytes(Encoding.DER)
        self._session.flush()
        after = {"serial": row.serial.hex(), "not_after": row.not_after.isoformat()}
        self._audit("authority.ocsp-signer", after)
        # Notify OCSP responders, so that they load the new signer.
        self._session.execute(select(func.pg_notify(STATUS_CHANNEL, str(authority.id))))
        return True

    def reserve_number(self, *, scheduled: bool) -> int | None:
        """Reserve the number of the next revocation list.

        Returns None if the last list is younger than MIN_LIST_INTERVAL. In this case, a later run of the worker signs
        the list.
        """
        row = _lock_list_row(self._session, self._authority.tenant_id, self._authority.id)
        # If the time of the last list is in the future, it comes from a wrong clock. Do not wait for that time.
        if (
            row.this_update is not None
            and row.this_update <= self._now < row.this_update + MIN_LIST_INTERVAL
            and not scheduled
        ):
            return None
        row.reserved_number = max(row.reserved_number, row.number) + 1
        self._session.flush()
        return row.reserved_number

    def make_list(self, number: int, *, scheduled: bool) -> bool:
        """Sign the revocation list. Returns False if another worker reserved a later number meanwhile."""
        authority = self._authority
        row = _lock_list_row(self._session, authority.tenant_id, authority.id)
        if row.reserved_number != number:
            return False
        # Delete the pending work before reading the revocations. A later change adds new work.
        self._session.execute(delete(RevocationWork).where(RevocationWork.authority_id == authority.id))
        # Record skipped numbers in the audit log, because Admit may have signed unpublished lists with these numbers.
        gap = {} if row.number + 1 == number else {"last_published": row.number}
        row.number = number
        self._session.flush()
        entries = list(self._entries(row.scheduled_at and min(row.scheduled_at, self._now)))
        next_update = self._now + (ROOT_LIST_VALIDITY if authority.kind == "root" else LIST_VALIDITY)
        with translate_pki_errors():
            row.crl_der = build_crl(
                self._issuer,
                entries,
                number=row.number,
                this_update=self._now,
                next_update=next_update,
            )
        row.this_update, row.next_update, row.retry_at = self._now, next_update, None
        if scheduled:
            row.scheduled_at = self._now
        self._session.flush()
        self._audit("authority.crl", {"number": number, "entries": len(entries), "scheduled": scheduled, **gap})
        return True

    def _entries(self, last_scheduled: datetime | None) -> Iterator[tuple[bytes, Revocation]]:
        """Yield serial number and revocation of each revoked certificate.

        Omits an expired certificate if a scheduled list contained it after its expiry (RFC 5280 3.3).
        """
        row = Certificate
        query = (
            select(row.serial, row.revoked_at, row.revocation_reason)
            .where(row.authority_id == self._authority.id, row.status.in_(("abandoned", "suspended", "revoked")))
            .order_by(row.serial)
        )
        if last_scheduled is not None:
            query = query.where(or_(row.not_after >= last_scheduled, row.revoked_at >= last_scheduled))
        for serial, at, reason in self._session.execute(query):
            assert at is not None
            yield serial, build_revocation(at, reason)
        for serial, status in list_subordinate_revocations(self._session, self._authority.id).items():
            if isinstance(status, Revocation):
                yield serial, status

    def _audit(self, action: str, after: Mapping[str, Any]) -> None:
        audit.append(
            self._session,
            actor=self._actor,
            action=action,
            target=self._authority.name,
            tenant_id=self._authority.tenant_id,
            after=after,
        )


def signer_context(signer_id: UUID) -> str:
    """Return the context string for encrypting and decrypting the signer's private key."""
    return f"ocsp-signer:{signer_id}"


def list_subordinate_revocations(session: Session, authority_id: UUID) -> dict[bytes, Revocation | None]:
    """Return the revocation of each authority that this authority signed, by serial number; None if not revoked."""
    row = CertificateAuthority
    query = select(row.certificate_der, row.status, row.revoked_at, row.revocation_reason, row.not_before)
    below: dict[bytes, Revocation | None] = {}
    for der, status, at, reason, not_before in session.execute(query.where(row.issuer_id == authority_id)):
        serial = serial_bytes(x509.load_der_x509_certificate(der).serial_number)
        # If a revocation has no time, it applies from the start of the certificate's validity.
        below[serial] = build_revocation(at or not_before, reason) if status == "revoked" else None
    cross = AuthorityIntent
    crossed = select(cross.serial, cross.revoked_at, cross.revocation_reason).where(
        cross.issuer_id == authority_id, cross.kind == "cross", cross.signed_at.is_not(None)
    )
    for serial, at, reason in session.execute(crossed):
        below[serial] = build_revocation(at, reason) if at is not None else None
    return below
