"""Issuing in two steps: `reserve` records what will be signed, `sign` commits that if it is not yet, and signs it.

A signature cannot be taken back, so its row comes first, and stays whatever becomes of the process, of PostgreSQL or of
the rest of the transaction. What `sign` returns must leave the process only after the second commit, the edge's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session, SessionTransaction

from nac.audit import service as audit
from nac.certificates import intents, repository
from nac.certificates.errors import (
    AuthorityNotFound,
    CertificateNotFound,
    CertificateRefused,
    CertificateStatusConflict,
    DuplicateKey,
    refusals,
)
from nac.certificates.profiles import chosen_profile, tenant_settings
from nac.certificates.public import locations
from nac.certificates.server_names import SERVER_PROFILE, require_no_server_name
from nac.certificates.signing import Signing, issuer_of
from nac.db import commit_intent
from nac.errors import Conflict
from nac.ids import TenantId
from nac.models import Certificate
from pki.errors import PkiError
from pki.issuance import Issuer, check_sans, issue, plan_validity
from pki.keys import PrivateKey, PublicKey, generate_key, key_pem, public_key_digest, require_acceptable
from pki.names import San, build_general_names, build_san, read_common_name, read_organisation, read_sans, subject_name
from pki.openssl_names import format_one_line
from pki.profiles import CertificateProfile
from pki.serials import random_serial, serial_bytes

ClientProfile = Literal["eap-client-user", "eap-client-device", "radsec-nas"]
# Who holds such a certificate keeps its key to itself.
CLIENT_PROFILES: tuple[ClientProfile, ...] = get_args(ClientProfile)
# To these an administrator adds who runs a server of his own: nobody enrols or renews such a certificate by himself.
HandedOutProfile = ClientProfile | Literal["radsec-server"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A serial number recorded for a certificate that is to be signed."""

    tenant_id: TenantId
    serial: bytes
    profile: str
    # The profile as the tenant had it when this was reserved.
    rules: CertificateProfile
    subject: x509.Name
    sans: tuple[San, ...]
    not_before: datetime
    not_after: datetime
    # With its key opened: a key that does not open leaves no intent behind.
    issuer: Issuer = field(repr=False)
    root: x509.Certificate
    # While the session is in it, the reservation is not committed.
    made_in: SessionTransaction | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """What a device needs. The key is in no table: this is the only time it is seen."""

    serial: bytes
    profile: str
    common_name: str
    certificate: x509.Certificate
    # Authorities between the certificate and its root, the certificate's own first.
    intermediates: tuple[x509.Certificate, ...]
    root: x509.Certificate
    # None where the asker kept it (PKCS#10).
    key: PrivateKey | None = field(repr=False)


def reserve(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    profile: str,
    common_name: str,
    sans: Iterable[San] = (),
    signing: Signing,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    public_key: PublicKey | None = None,
    renews: Certificate | None = None,
    endpoint_id: UUID | None = None,
    user_id: UUID | None = None,
    secret_id: UUID | None = None,
) -> Reservation:
    """Check what is asked for and record it as `intended`. Raises CertificateRefused, or Conflict for want of a CA.

    `public_key` where it is known already: nobody else is certified for it.
    """
    signer = repository.get_signer(session, tenant_id, now)
    if signer is None:
        raise Conflict(
            "The tenant has no active issuing authority.", place="authority", remedy="Make one: ./admit ca rollover"
        )
    rules = chosen_profile(profile, signer.profiles)
    issuer = issuer_of(signer.authority, signing)
    with refusals():
        subject = subject_name(common_name, organisation=read_organisation(issuer.certificate.subject))
        checked = check_sans(rules, sans)
        # Whatever `issue` would refuse is refused before it is intended.
        build_general_names(checked)
        if public_key is not None:
            require_acceptable(public_key)
        validity = plan_validity(rules, issuer=issuer.certificate, now=now, not_before=not_before, not_after=not_after)
    if profile != SERVER_PROFILE:
        require_no_server_name(signer.servers, common_name=common_name, sans=checked)
    told = {"profile": profile, "subject": format_one_line(subject), "authority": str(signer.authority.id)}
    serial = serial_bytes(random_serial())
    repository.add_intent(
        session,
        {
            "id": uuid4(),
            "tenant_id": tenant_id,
            "authority_id": signer.authority.id,
            "serial": serial,
            "profile": profile,
            "common_name": read_common_name(subject),
            "subject": told["subject"],
            "public_key_sha256": None if public_key is None else public_key_digest(public_key),
            "not_before": validity.not_before,
            "not_after": validity.not_after,
            "renews_id": None if renews is None else renews.id,
            "endpoint_id": endpoint_id,
            "user_id": user_id,
            "secret_id": secret_id,
        },
    )
    _audit(session, actor, "intend", tenant_id, serial, told)
    return Reservation(
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


def sign(
    session: Session, reservation: Reservation, *, actor: str, public_key: PublicKey, signing: Signing, now: datetime
) -> Certificate:
    """Sign what was reserved, once only. A reservation of this very transaction is committed first, and all else in it.

    Raises CertificateStatusConflict where the intent was given up meanwhile.
    """
    if session.get_transaction() is reservation.made_in:
        commit_intent(session)
    # Who revokes an authority waits for this, or has been before.
    repository.share_tenant(session, reservation.tenant_id)
    intent = repository.lock_intent(session, reservation.tenant_id, reservation.serial)
    if intent is None:
        raise CertificateNotFound(f"Serial number {reservation.serial.hex()} was never reserved.", place="serial")
    row = intent.row
    if row.status == "abandoned":
        raise CertificateStatusConflict("The certificate was given up meanwhile.", place="serial", remedy="Ask again.")
    if row.status != "intended":
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} is signed already.", place="serial")
    if not intent.authority_signs:
        raise AuthorityNotFound("The authority no longer signs.", place="authority", remedy="Ask again.")
    with refusals():
        certificate = issue(
            reservation.rules,
            public_key=public_key,
            subject=reservation.subject,
            sans=reservation.sans,
            issuer=reservation.issuer,
            now=now,
            serial=int.from_bytes(reservation.serial),
            locations=locations(signing.public_url, row.authority_id),
            not_before=reservation.not_before,
            not_after=reservation.not_after,
        )
    row.certificate_der = certificate.public_bytes(Encoding.DER)
    row.public_key_sha256 = public_key_digest(public_key)
    row.status = "valid"
    told = {
        "profile": row.profile,
        "subject": row.subject,
        "names": [str(item) for item in reservation.sans],
        "not_before": row.not_before.isoformat(),
        "not_after": row.not_after.isoformat(),
        "authority": str(row.authority_id),
    }
    _audit(session, actor, "issue", row.tenant_id, row.serial, told)
    return row


def issue_client(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    profile: HandedOutProfile,
    common_name: str,
    sans: Iterable[San] = (),
    public_key: PublicKey | None = None,
    renews: Certificate | None = None,
    signing: Signing,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    endpoint_id: UUID | None = None,
    user_id: UUID | None = None,
    secret_id: UUID | None = None,
) -> IssuedCertificate:
    """A certificate for a key from a signing request, or for a new key, which is returned and not kept.

    Commits in between, as `sign` says.

    `not_before` and `not_after` (aware) replace the profile's validity; they may lie in the past or the future. Raises
    DuplicateKey for a key that was certified before, unless in the very certificate that this one `renews`.
    """
    if public_key is not None:
        _require_new_key(session, actor, tenant_id, public_key_digest(public_key), renews, now)
    reservation = reserve(
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
    row = sign(session, reservation, actor=actor, public_key=public_key, signing=signing, now=now)
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
    """A key that two devices hold tells neither of them from the other."""
    if renews is not None and renews.public_key_sha256 == digest:
        return
    if not repository.is_certified(session, tenant_id, digest):
        return
    # One that was never finished: the device asks again, and is given another.
    same_key, age = Certificate.public_key_sha256 == digest, intents.STALE_AFTER
    intents.abandon(session, actor=actor, tenant_id=tenant_id, which=same_key, now=now, older_than=age)
    if repository.is_certified(session, tenant_id, digest):
        raise DuplicateKey("This key is in another certificate already.", place="key", remedy="Make a new key.")


def issue_server(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    dns_names: Sequence[str],
    signing: Signing,
    now: datetime,
    present_from: datetime | None = None,
) -> Certificate:
    """An EAP server certificate; its key stays here, sealed, for the cell.

    The cell presents the valid one whose `present_from` (None: at once) came last. Commits in between, as `sign` says.
    """
    reservation = reserve_server(
        session, actor=actor, tenant_id=tenant_id, dns_names=dns_names, signing=signing, now=now
    )
    if present_from is not None and present_from >= reservation.not_after:
        raise CertificateRefused(
            "The certificate ends before devices would be shown it.",
            place="present_from",
            remedy=f"Choose a time before {reservation.not_after:%Y-%m-%d %H:%M} UTC.",
        )
    return sign_server(session, reservation, actor=actor, signing=signing, now=now, present_from=present_from)


def require_server_names(session: Session, *, tenant_id: TenantId, dns_names: Sequence[str]) -> None:
    """Raises CertificateRefused of what `reserve_server` would refuse, before anything is made."""
    rules = chosen_profile(SERVER_PROFILE, tenant_settings(session, tenant_id).profiles)
    try:
        build_general_names(check_sans(rules, [build_san("dns", name) for name in dns_names]))
    except PkiError as exc:
        raise CertificateRefused(str(exc), place="server_names") from exc


def reserve_server(
    session: Session, *, actor: str, tenant_id: TenantId, dns_names: Sequence[str], signing: Signing, now: datetime
) -> Reservation:
    """As `reserve`, for `sign_server`."""
    with refusals():
        sans = tuple(build_san("dns", name) for name in dns_names)
    # The common name holds 64 characters, an alternative name 253: supplicants match the latter.
    common_name = next((item.value for item in sans if len(item.value) <= 64), "radius")
    return reserve(
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
    reservation: Reservation,
    *,
    actor: str,
    signing: Signing,
    now: datetime,
    present_from: datetime | None = None,
) -> Certificate:
    key = generate_key(reservation.rules.key)
    row = sign(session, reservation, actor=actor, public_key=key.public_key(), signing=signing, now=now)
    row.key_sealed = signing.sealer.seal(key_pem(key), f"certificate:{row.id}")
    repository.present_server(session, row, present_from or now)
    return row


def dns_names_of(server: Certificate) -> list[str]:
    """What devices may ask for to accept it."""
    assert server.certificate_der is not None
    return [item.value for item in read_sans(x509.load_der_x509_certificate(server.certificate_der))]


def with_chain(session: Session, row: Certificate, key: PrivateKey | None) -> IssuedCertificate:
    """A signed certificate with the authorities above it."""
    if row.certificate_der is None:
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} was never signed.", place="serial")
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
    session: Session, actor: str, verb: str, tenant_id: TenantId, serial: bytes, told: Mapping[str, Any]
) -> None:
    action = f"certificate.{verb}"
    audit.append(session, actor=actor, action=action, target=serial.hex(), tenant_id=tenant_id, after=told)
