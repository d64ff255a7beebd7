"""Creation of authorities in two steps.

1. `reserve_authority` creates the key of an authority, and records an intent: a row with the name and serial number of
   the authority that Admit will sign. The caller then commits (`nac.kit.db.commit_intent`).
2. `sign_*` signs the authority's certificate.

If Admit abandons the intent, the row identifies the unused key in a PKCS#11 token. An administrator can delete the key.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID, uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.errors import AuthorityNotFound, CertificateStatusConflict, translate_pki_errors
from nac.certificates.profiles import get_certificate_settings, require_profile
from nac.certificates.public_lookups import build_locations
from nac.certificates.signing import AuthorityKey, SigningContext, build_issuer
from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, CertificateAuthority
from pki.issuance import issue, issue_root, key_identifier
from pki.names import read_common_name, subject_name
from pki.openssl_names import format_one_line, subject_line
from pki.serials import random_serial, serial_bytes

OwnAuthorityKind = Literal["root", "issuing"]
OWN_AUTHORITY_KINDS: tuple[OwnAuthorityKind, ...] = get_args(OwnAuthorityKind)
_MAX_SLUG_LENGTH = 55
_AUTHORITY_TITLES: dict[OwnAuthorityKind, str] = {"root": "Root CA", "issuing": "Issuing CA"}


@dataclass(frozen=True, slots=True)
class AuthorityReservation:
    authority_id: UUID
    tenant_id: TenantId
    kind: OwnAuthorityKind
    subject: x509.Name
    serial: int
    key: AuthorityKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class CrossReservation:
    id: UUID
    serial: int


def generate_unique_number(slug: str) -> str:
    """Return a suffix that makes an authority's name unique. Cells identify authorities only by their names."""
    return f"{slug[:_MAX_SLUG_LENGTH]}-{secrets.token_hex(4)}"


def reserve_authority(
    session: Session,
    *,
    tenant_id: TenantId,
    kind: OwnAuthorityKind,
    organisation: str,
    unique: str,
    signing: SigningContext,
    server_names: Sequence[str] = (),
) -> AuthorityReservation:
    """Create the key of an authority, and record the intent to sign the authority.

    `organisation` has at most 48 characters (see `subject_organisation`). `server_names` are the DNS names for the
    tenant's first server certificate.
    """
    authority_id, serial = uuid4(), random_serial()
    chosen = get_certificate_settings(session, tenant_id)
    with translate_pki_errors():
        title = f"{organisation} {_AUTHORITY_TITLES[kind]}"
        subject = subject_name(title, organisation=organisation, serial_number=unique)
        key = signing.new_authority_key(
            require_profile(session, tenant_id, kind).key, authority_id=authority_id, store=chosen.key_store
        )
    intent = _create_intent(session, tenant_id, authority_id, kind, subject, serial, key.store, None)
    intent.server_names = list(server_names)
    return AuthorityReservation(authority_id, tenant_id, kind, subject, serial, key)


def sign_root(
    session: Session, reservation: AuthorityReservation, *, actor: str, now: datetime
) -> CertificateAuthority:
    intent = _require_open_intent(session, reservation.tenant_id, reservation.authority_id)
    with translate_pki_errors():
        certificate = issue_root(
            require_profile(session, reservation.tenant_id, "root"),
            key=reservation.key.key,
            subject=reservation.subject,
            now=now,
            serial=reservation.serial,
        )
    intent.signed_at = now
    return _create_authority(session, actor, reservation, certificate, issuer_id=None)


def sign_issuing_authority(
    session: Session,
    reservation: AuthorityReservation,
    *,
    actor: str,
    root: CertificateAuthority,
    signing: SigningContext,
    now: datetime,
) -> CertificateAuthority:
    intent = _require_open_intent(session, reservation.tenant_id, reservation.authority_id)
    with translate_pki_errors():
        certificate = issue(
            require_profile(session, reservation.tenant_id, "issuing"),
            public_key=reservation.key.key.public_key(),
            subject=reservation.subject,
            issuer=build_issuer(root, signing),
            now=now,
            serial=reservation.serial,
            locations=build_locations(signing.public_url, root.id),
        )
    intent.signed_at = now
    return _create_authority(session, actor, reservation, certificate, issuer_id=root.id)


def reserve_cross_certificate(
    session: Session, *, tenant_id: TenantId, new: AuthorityReservation, old: CertificateAuthority
) -> CrossReservation:
    """Record the intent to sign a cross-certificate: a certificate of the root `new`, signed by the root `old`."""
    reservation = CrossReservation(uuid4(), random_serial())
    _create_intent(session, tenant_id, reservation.id, "cross", new.subject, reservation.serial, old.key_store, old.id)
    return reservation


def cross_sign(
    session: Session,
    reservation: CrossReservation,
    *,
    actor: str,
    tenant_id: TenantId,
    new: CertificateAuthority,
    old: CertificateAuthority,
    signing: SigningContext,
    now: datetime,
) -> None:
    """Sign a cross-certificate (RFC 4210 4.4) after `reserve_cross_certificate`. Devices that trust only the old root
    then accept certificates below the new root."""
    certificate = x509.load_der_x509_certificate(new.certificate_der)
    intent = _require_open_intent(session, tenant_id, reservation.id)
    with translate_pki_errors():
        crossed = issue(
            require_profile(session, tenant_id, "root"),
            public_key=certificate.public_key(),
            subject=certificate.subject,
            issuer=build_issuer(old, signing),
            now=now,
            serial=reservation.serial,
            locations=build_locations(signing.public_url, old.id),
        )
    new.cross_der = crossed.public_bytes(Encoding.DER)
    intent.signed_at = now
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="authority.cross-sign",
        target=new.name,
        tenant_id=tenant_id,
        after={"subject": new.subject, "issuer": old.subject, "not_after": crossed.not_valid_after_utc.isoformat()},
    )


def _create_intent(
    session: Session,
    tenant_id: TenantId,
    intent_id: UUID,
    kind: Literal["root", "issuing", "cross"],
    subject: x509.Name,
    serial: int,
    key_store: str,
    issuer_id: UUID | None,
) -> AuthorityIntent:
    intent = AuthorityIntent(
        id=intent_id,
        tenant_id=tenant_id,
        kind=kind,
        subject=format_one_line(subject),
        serial=serial_bytes(serial),
        issuer_id=issuer_id,
        key_store=key_store,
    )
    session.add(intent)
    session.flush()
    return intent


def _require_open_intent(session: Session, tenant_id: TenantId, intent_id: UUID) -> AuthorityIntent:
    """Lock and return the intent (the row of an unsigned authority) whose certificate the caller will sign.

    Raises AuthorityNotFound, or CertificateStatusConflict if the authority is signed or the intent was abandoned.
    """
    intent = repository.lock_authority_intent(session, tenant_id, intent_id)
    if intent is None:
        raise AuthorityNotFound(
            "Admit has no record of this unfinished authority.",
            place="authority",
            remedy="Create the authority again.",
        )
    if intent.signed_at is not None:
        raise CertificateStatusConflict("The authority is already signed.", place="authority")
    if intent.abandoned_at is not None:
        raise CertificateStatusConflict(
            "Admit abandoned the unfinished authority.", place="authority", remedy="Create the authority again."
        )
    return intent


def _create_authority(
    session: Session,
    actor: str,
    reservation: AuthorityReservation,
    certificate: x509.Certificate,
    *,
    issuer_id: UUID | None,
) -> CertificateAuthority:
    authority = CertificateAuthority(
        id=reservation.authority_id,
        tenant_id=reservation.tenant_id,
        kind=reservation.kind,
        name=read_common_name(reservation.subject),
        subject=subject_line(certificate),
        certificate_der=certificate.public_bytes(Encoding.DER),
        key_sealed=reservation.key.sealed,
        key_store=reservation.key.store,
        key_id=key_identifier(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        issuer_id=issuer_id,
    )
    session.add(authority)
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="authority.create",
        target=authority.name,
        tenant_id=reservation.tenant_id,
        after={
            "kind": authority.kind,
            "subject": authority.subject,
            "serial": serial_bytes(reservation.serial).hex(),
            "key_store": authority.key_store,
            "not_after": authority.not_after.isoformat(),
        },
    )
    return authority
