"""External authorities, which a tenant uploaded. radiusd trusts them only for certificates of this tenant's devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.authorities import require_authority
from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.validation import require_web_address
from nac.models import CertificateAuthority, ExternalCertificate, StatusSource
from pki.errors import UploadNotReadable
from pki.issuance import key_identifier
from pki.names import read_common_name
from pki.openssl_names import subject_line
from pki.uploads import (
    compute_key_identifier,
    has_signed,
    has_strong_signature,
    is_root,
    list_mistakes,
    read_certificates,
)

# Maximum number of external authorities. Limited because radiusd reads a file for each authority, and each decision
# about a certificate reads all authorities.
MAX_AUTHORITIES = 100
# Maximum number of authorities with equal names. Admit checks a new certificate against each of these authorities.
MAX_SAME_NAME = 8


class UploadMistake(NamedTuple):
    # Name of the uploaded file, and position of the certificate in this file.
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class InvalidUpload(InvalidInput):
    """The uploaded authorities cannot be trusted."""

    def __init__(self, mistakes: Iterable[UploadMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(map(str, self.mistakes)))

    @property
    def members(self) -> Mapping[str, Any]:
        rows = [{"place": mistake.place, "detail": mistake.message} for mistake in self.mistakes]
        return {
            "detail": f"The upload has {len(rows)} mistakes." if len(rows) > 1 else "The upload has a mistake.",
            "mistakes": rows,
        }


@dataclass(frozen=True, slots=True)
class AuthorityImportResult:
    """The authorities of an upload, including authorities that the tenant already trusted."""

    authorities: tuple[CertificateAuthority, ...]
    # True if radiusd trusts the new authorities only after the agent restarts it.
    needs_exchange: bool


@dataclass(slots=True)
class _AuthorityUpload:
    session: Session
    tenant_id: TenantId
    now: datetime
    mistakes: list[UploadMistake] = field(default_factory=list)
    # Maps the DER of each certificate to the certificate, and to its file name and position in the file.
    certificates: dict[bytes, tuple[x509.Certificate, str]] = field(default_factory=dict)

    def read(self, name: str, data: bytes) -> None:
        try:
            found = read_certificates(data)
        except UploadNotReadable as exc:
            self.mistakes.append(UploadMistake(name, str(exc)))
            return
        for number, certificate in enumerate(found, 1):
            place = f"{name}, certificate {number} ({subject_line(certificate)})"
            self.certificates.setdefault(_to_der(certificate), (certificate, place))

    def check(self, present: Sequence[CertificateAuthority]) -> None:
        own = {row.subject for row in present if row.kind != "external"}
        known = [x509.load_der_x509_certificate(row.certificate_der) for row in present if _is_trusted(row)]
        offered = [certificate for certificate, _ in self.certificates.values()]
        for certificate, place in self.certificates.values():
            found = list(list_mistakes(certificate, now=self.now))
            if self.session.scalar(select(func.is_made_here(compute_key_identifier(certificate)))):
                found.append("Admit created this authority and already trusts it, so you cannot upload it.")
            elif subject_line(certificate) in own:
                found.append("This authority has the name of an authority that Admit created for the tenant.")
            if (
                has_strong_signature(certificate)
                and not is_root(certificate)
                and not _find_parents(certificate, [*offered, *known])
            ):
                found.append(
                    "The authority that signed this certificate is missing. Upload all authorities up to the root."
                )
            self.mistakes += (UploadMistake(place, message) for message in found)
        self._check_numbers(present)

    def _check_numbers(self, present: Sequence[CertificateAuthority]) -> None:
        trusted = {row.certificate_der: row.subject for row in present if row.kind == "external"}
        subjects = list((trusted | {der: subject_line(each) for der, (each, _) in self.certificates.items()}).values())
        if len(subjects) > MAX_AUTHORITIES:
            self.mistakes.append(
                UploadMistake("upload", f"Too many authorities: {len(subjects)}. The limit is {MAX_AUTHORITIES}.")
            )
        for subject in dict.fromkeys(subjects):
            if subjects.count(subject) > MAX_SAME_NAME:
                message = f"More than {MAX_SAME_NAME} authorities have the name {subject}. Remove old authorities."
                self.mistakes.append(UploadMistake("upload", message))


def import_authorities(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    files: Iterable[tuple[str, bytes]],
    now: datetime,
    crl_url: str = "",
    ocsp_url: str = "",
) -> AuthorityImportResult:
    """Trust the roots and intermediates in `files`: pairs of file name and content.

    The CRL and OCSP URLs apply to all authorities in the files. If a URL is "", Admit uses the URLs in the device
    certificates. Raises InvalidUpload with all mistakes.
    """
    for name, url in (("crl_url", crl_url), ("ocsp_url", ocsp_url)):
        if url:
            require_web_address(url, place=name)
    tenant = repository.lock_tenant(session, tenant_id)
    present = repository.list_authorities(session, tenant_id)
    upload = _AuthorityUpload(session, tenant_id, now)
    for name, data in files:
        upload.read(name, data)
    upload.check(present)
    if upload.mistakes:
        raise InvalidUpload(upload.mistakes)
    by_der = {row.certificate_der: row for row in present if row.kind == "external"}
    names_held = {row.subject for row in present}
    rows, fresh = [], []
    for der, (certificate, _) in upload.certificates.items():
        row = by_der.get(der)
        if row is None:
            row = _create_authority(session, tenant_id, certificate)
            fresh.append(row)
        row.status, row.revoked_at, row.revocation_reason = "active", None, ""
        _update_status_source(session, row, crl_url=crl_url or None, ocsp_url=ocsp_url or None)
        rows.append(row)
    _link_parents(session, tenant_id)
    for row in rows:
        _audit(session, actor, row, "import")
    # After OpenSSL has loaded an authority, it does not read new files of authorities with the same name.
    needs_exchange = any(row.subject in names_held for row in fresh)
    tenant.trusts_external = True
    tenant.trust_generation += needs_exchange
    session.flush()
    return AuthorityImportResult(tuple(rows), needs_exchange)


def delete_authority(
    session: Session, *, actor: str, tenant_id: TenantId, which: str
) -> Sequence[CertificateAuthority]:
    """Delete an external authority, so that the tenant no longer trusts it.

    Also deletes authorities below it, except if another trusted authority signed them. Returns all deleted authorities.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    first = require_external_authority(session, tenant_id=tenant_id, which=which)
    gone = [first]
    while orphans := _link_parents(session, tenant_id, without={row.id for row in gone}):
        gone += orphans
    for row in gone:
        row.issuer_id = None
        _audit(session, actor, row, "remove")
    session.flush()
    ids = [row.id for row in gone]
    session.execute(delete(ExternalCertificate).where(ExternalCertificate.authority_id.in_(ids)))
    session.execute(delete(CertificateAuthority).where(CertificateAuthority.id.in_(ids)))
    # Policies reject the certificates at once. radiusd trusts the authority until the agent restarts it.
    tenant.trust_generation += 1
    session.flush()
    return gone


def update_status_sources(
    session: Session, *, actor: str, tenant_id: TenantId, which: str, crl_url: str | None, ocsp_url: str | None
) -> CertificateAuthority:
    """Set the CRL URL and OCSP URL of an external authority. None keeps the current URL."""
    for name, url in (("crl_url", crl_url), ("ocsp_url", ocsp_url)):
        if url:
            require_web_address(url, place=name)
    row = require_external_authority(session, tenant_id=tenant_id, which=which)
    source = get_status_source(session, tenant_id=tenant_id, authority_id=row.id)
    if source is None or crl_url not in (None, source.crl_url) or ocsp_url not in (None, source.ocsp_url):
        _update_status_source(session, row, crl_url=crl_url, ocsp_url=ocsp_url)
        _audit(session, actor, row, "set")
    return row


def require_external_authority(
    session: Session, *, tenant_id: TenantId, which: str, lock: bool = False
) -> CertificateAuthority:
    """Return the external authority `which`. `lock` locks all authorities of the tenant.

    Raises AuthorityNotFound, or InvalidInput if Admit created the authority.
    """
    if lock:
        repository.lock_tenant(session, tenant_id)
    row = require_authority(session, tenant_id=tenant_id, which=which)
    if row.kind != "external":
        raise InvalidInput(
            "Admit created this authority. This operation is only for uploaded authorities.",
            place="authority",
            remedy=Advice("List authorities (kind external)", "listAuthorities"),
        )
    return row


def get_status_source(session: Session, *, tenant_id: TenantId, authority_id: UUID) -> StatusSource | None:
    query = select(StatusSource).where(StatusSource.tenant_id == tenant_id, StatusSource.authority_id == authority_id)
    return session.scalar(query)


def status_sources_by_authority(session: Session, *, tenant_id: TenantId) -> dict[UUID, StatusSource]:
    """Return the status sources (CRL and OCSP URLs) of the tenant's external authorities, by authority id."""
    rows = session.scalars(select(StatusSource).where(StatusSource.tenant_id == tenant_id))
    return {row.authority_id: row for row in rows}


def _is_trusted(row: CertificateAuthority) -> bool:
    return row.kind == "external" and row.status != "revoked"


def _find_parents(certificate: x509.Certificate, candidates: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    return [each for each in candidates if _to_der(each) != _to_der(certificate) and has_signed(each, certificate)]


def _link_parents(session: Session, tenant_id: TenantId, *, without: Iterable[UUID] = ()) -> list[CertificateAuthority]:
    """Link each external authority to its issuer. Returns the intermediates whose issuer is not trusted.

    If several trusted authorities could be the issuer, uses the authority that expires last.
    """
    excluded = set(without)
    rows = [row for row in repository.list_authorities(session, tenant_id) if row.id not in excluded]
    trusted = {row.certificate_der: row for row in rows if _is_trusted(row)}
    loaded = [x509.load_der_x509_certificate(der) for der in trusted]
    orphans = []
    for certificate in loaded:
        row = trusted[_to_der(certificate)]
        if is_root(certificate):
            continue
        parents = _find_parents(certificate, loaded)
        if parents:
            last = max(parents, key=lambda each: each.not_valid_after_utc)
            row.issuer_id = trusted[_to_der(last)].id
        else:
            orphans.append(row)
    session.flush()
    return orphans


def _create_authority(session: Session, tenant_id: TenantId, certificate: x509.Certificate) -> CertificateAuthority:
    row = CertificateAuthority(
        tenant_id=tenant_id,
        kind="external",
        name=read_common_name(certificate.subject) or subject_line(certificate),
        subject=subject_line(certificate),
        certificate_der=_to_der(certificate),
        key_id=key_identifier(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
    )
    session.add(row)
    session.flush()
    return row


def _update_status_source(
    session: Session, row: CertificateAuthority, *, crl_url: str | None, ocsp_url: str | None
) -> None:
    source = session.get(StatusSource, row.id)
    if source is None:
        source = StatusSource(tenant_id=row.tenant_id, authority_id=row.id)
        session.add(source)
    if crl_url is not None:
        source.crl_url = crl_url
    if ocsp_url is not None:
        source.ocsp_url = ocsp_url
    # The revocation list is now due, so the worker fetches it at once.
    source.crl_due_at = func.now()
    session.flush()


def _audit(session: Session, actor: str, row: CertificateAuthority, verb: str) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"authority.{verb}",
        target=row.name,
        tenant_id=row.tenant_id,
        after={"id": str(row.id), "subject": row.subject, "not_after": row.not_after.isoformat()},
    )


def _to_der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
