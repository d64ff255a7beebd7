"""Issuing in two steps: `reserve_certificate` records the certificate as an intent (a row with the status `intended`),
and `sign_certificate` commits the row and signs the certificate.

A signature cannot be undone. So Admit commits the row before it signs, and a failure cannot lose the row. The caller
must commit again before it returns the certificate to the client.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session, SessionTransaction

from nac.certificates import intents, repository
from nac.certificates.certificate_names import SERVER_PROFILE, require_no_server_name
from nac.certificates.errors import (
    AuthorityNotFound,
    CertificateNotFound,
    CertificateRefused,
    CertificateStatusConflict,
    DuplicateKey,
    translate_pki_errors,
)
from nac.certificates.profiles import get_certificate_settings, resolve_profile
from nac.certificates.public_lookups import build_locations
from nac.certificates.signing import SigningContext, build_issuer
from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db import commit_intent
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Certificate
from pki.errors import PkiError
from pki.issuance import Issuer, check_sans, issue, plan_validity
from pki.keys import PrivateKey, PublicKey, generate_key, key_pem, public_key_digest, require_acceptable
from pki.names import San, build_general_names, build_san, read_common_name, read_organisation, read_sans, subject_name
from pki.openssl_names import format_one_line
from pki.profiles import CertificateProfile
from pki.serials import random_serial, serial_bytes

ClientProfile = Literal["eap-client-user", "eap-client-device", "radsec-nas"]
# Profiles of certificates whose private key only the holder has.
CLIENT_PROFILES: tuple[ClientProfile, ...] = get_args(ClientProfile)
# Profiles that an administrator can issue. Holders can neither enrol for "radsec-server" nor renew it.
IssuableProfile = ClientProfile | Literal["radsec-server"]


@dataclass(frozen=True, slots=True)
class CertificateReservation:
    """A certificate that Admit has recorded with a serial number, but not signed yet."""

    tenant_id: TenantId
    serial: bytes
    profile: str
    # The tenant's certificate profile at the time of the reservation.
    rules: CertificateProfile
    subject: x509.Name
    sans: tuple[San, ...]
    not_before: datetime
    not_after: datetime
    # The issuing authority. Admit decrypted its key before the reservation, so an unusable key leaves no intent behind.
    issuer: Issuer = field(repr=False)
    root: x509.Certificate
    # Transaction that recorded the intent. While the session is in this transaction, the intent is not committed.
    made_in: SessionTransaction | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A signed certificate for a device. `key` is the only copy of the private key, because Admit does not store it."""

    serial: bytes
    profile: str
    common_name: str
    certificate: x509.Certificate
    # Authorities between certificate and root, starting with the issuer.
    intermediates: tuple[x509.Certificate, ...]
    root: x509.Certificate
    # None if the requester created the key (PKCS#10).
    key: PrivateKey | None = field(repr=False)


def reserve_certificate(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    profile: str,
    common_name: str,
    sans: Iterable[San] = (),
    signing: SigningContext,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    public_key: PublicKey | None = None,
    renews: Certificate | None = None,
    endpoint_id: UUID | None = None,
    user_id: UUID | None = None,
    secret_id: UUID | None = None,
) -> CertificateReservation:
    """Check the values, and record a certificate with the status `intended`.

    If you set `public_key`, no other certificate can have this key. Raises CertificateRefused, or Conflict if the
    tenant has no authority that can sign.
    """
    signer = repository.get_signer(session, tenant_id, now)
    if signer is None:
        raise Conflict(
            "The tenant has no active issuing authority.",
            place="authority",
            remedy=Advice("Create an authority.", "rollOverAuthorities"),
        )
    rules = resolve_profile(profile, signer.profiles)
    issuer = build_issuer(signer.authority, signing)
    with translate_pki_errors():
        subject = subject_name(common_name, organisation=read_organisation(issuer.certificate.subject))
        checked = check_sans(rules, sans)
        # Reject invalid names now, because `issue` would reject them only after the reservation.
        build_general_names(checked)
        if public_key is not None:
            require_acceptable(public_key)
        validity = plan_validity(rules, issuer=issuer.certificate, now=now, not_before=not_before, not_after=not_after)
    if profile != SERVER_PROFILE:
        require_no_server_name(signer.servers, common_name=common_name, sans=checked)
    details = {"profile": profile, "subject": format_one_line(subject), "authority": str(signer.authority.id)}
    serial = serial_bytes(random_serial())
    repository.create_intent(
        session,
        {
            "id": uuid4(),
            "tenant_id": tenant_id,
            "authority_id": signer.authority.id,
            "serial": serial,
            "profile": profile,
            "common_name": read_common_name(subject),
            "subject": details["subject"],
            "public_key_sha256": None if public_key is None else public_key_digest(public_key),
            "not_before": validity.not_before,
            "not_after": validity.not_after,
            "renews_id": None if renews is None else renews.id,
            "endpoint_id": endpoint_id,
            "user_id": user_id,
            "secret_id": secret_id,
        },
    )
    _audit(session, actor, "intend", tenant_id, serial, details)
    return CertificateReservation(
        tenant_id=tenant_id,
        serial=serial,
        profile=profile,
        rules=rules,
        subject=subject,
        sans=checked,
        not_before=validity.not_before,
        not_after=validity.not_after,
        issuer=issuer,
        root=x509.load_der_x509_certificate(signer.root_der),
        made_in=session.get_transaction(),
    )


def sign_certificate(
    session: Session,
    reservation: CertificateReservation,
    *,
    actor: str,
    public_key: PublicKey,
    signing: SigningContext,
    now: datetime,
) -> Certificate:
    """Sign a reserved certificate. If the reservation is not yet committed, commits the session before the signature.

    Raises CertificateStatusConflict if the certificate is already signed or abandoned.
    """
    if session.get_transaction() is reservation.made_in:
        commit_intent(session)
    # If another transaction is revoking the authority, wait for it.
    repository.lock_tenant_shared(session, reservation.tenant_id)
    intent = repository.lock_intent(session, reservation.tenant_id, reservation.serial)
    if intent is None:
        raise CertificateNotFound(
            f"Admit has no record of the unfinished certificate {reservation.serial.hex()}.", place="serial"
        )
    row = intent.row
    if row.status == "abandoned":
        raise CertificateStatusConflict(
            "Admit abandoned the unfinished certificate.", place="serial", remedy="Issue the certificate again."
        )
    if row.status != "intended":
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} is already signed.", place="serial")
    if not intent.authority_signs:
        raise AuthorityNotFound(
            "The issuing authority was retired or revoked.", place="authority", remedy="Issue the certificate again."
        )
    with translate_pki_errors():
        certificate = issue(
            reservation.rules,
            public_key=public_key,
            subject=reservation.subject,
            sans=reservation.sans,
            issuer=reservation.issuer,
            now=now,
            serial=int.from_bytes(reservation.serial),
            locations=build_locations(signing.public_url, row.authority_id),
            not_before=reservation.not_before,
            not_after=reservation.not_after,
        )
    row.certificate_der = certificate.public_bytes(Encoding.DER)
    row.public_key_sha256 = public_key_digest(public_key)
    row.status = "valid"
    details = {
        "profile": row.profile,
        "subject": row.subject,
        "names": [str(item) for item in reservation.sans],
        "not_before": row.not_before.isoformat(),
        "not_after": row.not_after.isoformat(),
        "authority": str(row.authority_id),
    }
    _audit(session, actor, "issue", row.tenant_id, row.serial, details)
    return row


def issue_client(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    profile: IssuableProfile,
    common_name: str,
    sans: Iterable[San] = (),
    public_key: PublicKey | None = None,
    renews: Certificate | None = None,
    signing: SigningContext,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    endpoint_id: UUID | None = None,
    user_id: UUID | None = None,
    secret_id: UUID | None = None,
) -> IssuedCertificate:
    """Issue a certificate for `public_key`. Without `public_key`, the result contains a new private key, which Admit
    does not store.

    Commits the session before it signs. `not_before` and `not_after` override the validity in the profile. Both times
    need a time zone, and can be in the past or future. `renews` is the certificate that the new certificate renews.
    Raises DuplicateKey if any other certificate has the key.
    """
    if public_key is not None:
        _require_new_key(session, actor, tenant_id, public_key_digest(public_key), renews, now)
    reservation = reserve_certificate(
        session,
        actor=actor,
        tenant_id=tenant_id,
        profile=profile,
        common_name=common_name,
        sans=sans,
        signing=signing,
        now=now,
        not_before=not_before,
        not_after=not_after,
        public_key=public_key,
        renews=renews,
        endpoint_id=endpoint_id,
        user_id=user_id,
        secret_id=secret_id,
    )
    key = None
    if public_key is None:
        key = generate_key(reservation.rules.key)
        public_key = key.public_key()
    row = sign_certificate(session, reservation, actor=actor, public_key=public_key, signing=signing, now=now)
    assert row.certificate_der is not None
    return IssuedCertificate(
        serial=row.serial,
        profile=row.profile,
        common_name=row.common_name,
        certificate=x509.load_der_x509_certificate(row.certificate_der),
        intermediates=(reservation.issuer.certificate,),
        root=reservation.root,
        key=key,
    )


def _require_new_key(
    session: Session, actor: str, tenant_id: TenantId, digest: bytes, renews: Certificate | None, now: datetime
) -> None:
    """Raise DuplicateKey if another certificate has the key, because Admit could not distinguish two such devices."""
    if renews is not None and renews.public_key_sha256 == digest:
        return
    if not repository.is_key_certified(session, tenant_id, digest):
        return
    # The other certificate may be a stale intent of the same device. Abandon this intent, so that the device can retry.
    same_key, age = Certificate.public_key_sha256 == digest, intents.STALE_AFTER
    intents.abandon_intents(session, actor=actor, tenant_id=tenant_id, which=same_key, now=now, older_than=age)
    if repository.is_key_certified(session, tenant_id, digest):
        raise DuplicateKey("Another certificate already has this key.", place="key", remedy="Create a new key.")


def issue_server(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    dns_names: Sequence[str],
    signing: SigningContext,
    now: datetime,
    present_from: datetime | None = None,
) -> Certificate:
    """Issue an EAP server certificate. Admit stores the encrypted private key for radiusd.

    The cell presents the certificate to devices from the time `present_from`; None means now. If several certificates
    are valid, the cell presents the certificate with the latest `present_from` that is not in the future. Commits the
    session before it signs.
    """
    reservation = reserve_server(
        session, actor=actor, tenant_id=tenant_id, dns_names=dns_names, signing=signing, now=now
    )
    if present_from is not None and present_from >= reservation.not_after:
        raise CertificateRefused(
            "The server certificate would expire before the cell starts to use it.",
            place="present_from",
            remedy=f"Choose a time before {reservation.not_after:%Y-%m-%d %H:%M} UTC.",
        )
    return sign_server(session, reservation, actor=actor, signing=signing, now=now, present_from=present_from)


def require_server_names(session: Session, *, tenant_id: TenantId, dns_names: Sequence[str]) -> None:
    """Check the DNS names of a server certificate. Raises CertificateRefused."""
    rules = resolve_profile(SERVER_PROFILE, get_certificate_settings(session, tenant_id).profiles)
    try:
        build_general_names(check_sans(rules, [build_san("dns", name) for name in dns_names]))
    except PkiError as exc:
        raise CertificateRefused(str(exc), place="server_names") from exc


def reserve_server(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    dns_names: Sequence[str],
    signing: SigningContext,
    now: datetime,
) -> CertificateReservation:
    """Record a server certificate with the status `intended`. `sign_server` signs the certificate."""
    with translate_pki_errors():
        sans = tuple(build_san("dns", name) for name in dns_names)
    # A common name has at most 64 characters, an alternative name 253. Supplicants check the alternative names.
    common_name = next((item.value for item in sans if len(item.value) <= 64), "radius")
    return reserve_certificate(
        session,
        actor=actor,
        tenant_id=tenant_id,
        profile=SERVER_PROFILE,
        common_name=common_name,
        sans=sans,
        signing=signing,
        now=now,
    )


def sign_server(
    session: Session,
    reservation: CertificateReservation,
    *,
    actor: str,
    signing: SigningContext,
    now: datetime,
    present_from: datetime | None = None,
) -> Certificate:
    key = generate_key(reservation.rules.key)
    row = sign_certificate(session, reservation, actor=actor, public_key=key.public_key(), signing=signing, now=now)
    row.key_sealed = signing.sealer.seal(key_pem(key), f"certificate:{row.id}")
    repository.present_server(session, row, present_from or now)
    return row


def get_dns_names(server: Certificate) -> list[str]:
    """Return the DNS names in the server certificate, which devices can check."""
    assert server.certificate_der is not None
    return [item.value for item in read_sans(x509.load_der_x509_certificate(server.certificate_der))]


def load_with_chain(session: Session, row: Certificate, key: PrivateKey | None) -> IssuedCertificate:
    """Return a signed certificate with its intermediates and root."""
    if row.certificate_der is None:
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} is not signed.", place="serial")
    authorities = []
    current: UUID | None = row.authority_id
    while current is not None:
        authority = repository.get_authority(session, row.tenant_id, current)
        if authority is None:
            raise AuthorityNotFound(place="authority")
        authorities.append(x509.load_der_x509_certificate(authority.certificate_der))
        current = authority.issuer_id
    *intermediates, root = authorities
    return IssuedCertificate(
        serial=row.serial,
        profile=row.profile,
        common_name=row.common_name,
        certificate=x509.load_der_x509_certificate(row.certificate_der),
        intermediates=tuple(intermediates),
        root=root,
        key=key,
    )


def _audit(
    session: Session, actor: str, verb: str, tenant_id: TenantId, serial: bytes, details: Mapping[str, Any]
) -> None:
    action = f"certificate.{verb}"
    audit.append(session, actor=actor, action=action, target=serial.hex(), tenant_id=tenant_id, after=details)
