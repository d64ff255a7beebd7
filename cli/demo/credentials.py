"""Certificate files of the demo, and settings for EST and SCEP at a demo tenant.

Admit does not store the keys, so the demo issues a certificate again if its files are missing or invalid. Each run
creates new enrolment secrets, because a secret works only once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from sqlalchemy.orm import Session

from api.enrolment.server_certificate import authority_path
from cli.command_context import CommandContext
from cli.demo.files import FileWriter, read_text
from nac.certificates import service as certificates
from nac.certificates.enrolment import service as enrolment
from nac.certificates.errors import CertificateNotFound
from nac.certificates.scep import service as scep
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority
from pki.bundles import certificates_pem
from pki.errors import PkiError
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key, is_same_public_key, key_pem, load_key
from pki.names import build_san, subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Credential:
    """Certificate of a supplicant with chain and key, in PEM."""

    identity: str
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """A certificate that each tenant gets.

    `begins` and `ends` are days from the issue; None for the default of the profile.
    """

    stem: str
    profile: str = "eap-client-device"
    begins: int | None = None
    ends: int | None = None
    revoked: bool = False

    def fits(self, row: Certificate, now: datetime) -> bool:
        """Whether an issued certificate has the planned status and validity, for at least one more day."""
        if self.revoked != (row.status == "revoked"):
            return False
        if self.ends is not None and self.ends < 0:
            return row.not_after < now
        if self.begins is not None and self.begins > 0:
            return row.not_before > now + _DAY
        return row.not_before <= now and row.not_after > now + _DAY


DEVICE = CertificatePlan("laptop")
REVOKED = CertificatePlan("revoked", revoked=True)
EXPIRED = CertificatePlan("expired", begins=-30, ends=-1)
NOT_YET_VALID = CertificatePlan("not-yet-valid", begins=30, ends=60)
# The validity begins before that of all server certificates of the tenant, so that the cell does not present this
# certificate.
WRONG_USAGE = CertificatePlan("wrong-usage", profile="eap-server", begins=-90)
CERTIFICATE_PLANS = (DEVICE, REVOKED, EXPIRED, NOT_YET_VALID, WRONG_USAGE)


@dataclass(frozen=True, slots=True)
class CredentialIssuer:
    """Issues certificates of one tenant and writes the certificates to the tenant's folder."""

    session: Session
    tenant_id: TenantId
    slug: str
    folder: Path
    actor: str
    signing: SigningContext
    now: datetime

    def credential(self, plan: CertificatePlan) -> Credential:
        name = f"{plan.stem}.{self.slug}.example"
        return Credential(name, self.folder / f"{plan.stem}.pem", self.folder / f"{plan.stem}.key")

    def ensure(self, plan: CertificatePlan, writer: FileWriter) -> bool:
        """Write the files of the certificate unless the files are valid. Returns whether a certificate was issued."""
        credential = self.credential(plan)
        row = self._find(credential)
        issued = None
        if row is None or not plan.fits(row, self.now):
            issued = self._issue(plan, credential.identity)
            writer.add(credential.certificate, certificates.build_pem_files(issued)["cert"])
            writer.add(credential.key, certificates.build_pem_files(issued)["key"])
        if plan is DEVICE:
            certificate = issued or certificates.load_with_chain(self.session, _require_row(row), None)
            writer.add(self.folder / "ca.pem", certificates_pem([certificate.root]))
            writer.add(self.folder / "issuing.pem", certificates_pem(certificate.intermediates))
        return issued is not None

    def authority(self, plan: CertificatePlan) -> CertificateAuthority:
        """Return the authority that issued the certificate.

        If the demo must issue the certificate again, returns the current issuing authority.
        """
        row = self._find(self.credential(plan))
        kept = row is not None and plan.fits(row, self.now)
        which = str(_require_row(row).authority_id) if kept else "issuing"
        return certificates.require_authority(self.session, tenant_id=self.tenant_id, which=which)

    def _find(self, credential: Credential) -> Certificate | None:
        certificate = read_matching_certificate(credential)
        if certificate is None:
            return None
        try:
            return certificates.require_by_serial(
                self.session, tenant_id=self.tenant_id, serial=f"{certificate.serial_number:x}"
            )
        except CertificateNotFound:
            return None

    def _issue(self, plan: CertificatePlan, name: str) -> certificates.IssuedCertificate:
        key = generate_key()
        reservation = certificates.reserve_certificate(
            self.session,
            actor=self.actor,
            tenant_id=self.tenant_id,
            profile=plan.profile,
            common_name=name,
            sans=(build_san("dns", name),),
            signing=self.signing,
            now=self.now,
            not_before=None if plan.begins is None else self.now + plan.begins * _DAY,
            not_after=None if plan.ends is None else self.now + plan.ends * _DAY,
        )
        row = certificates.sign_certificate(
            self.session,
            reservation,
            actor=self.actor,
            public_key=key.public_key(),
            signing=self.signing,
            now=self.now,
        )
        if plan.revoked:
            certificates.revoke_certificate(
                self.session, actor=self.actor, tenant_id=self.tenant_id, serial=row.serial.hex(), now=self.now
            )
        return certificates.load_with_chain(self.session, row, key)


def _require_row(row: Certificate | None) -> Certificate:
    assert row is not None
    return row


def read_matching_certificate(credential: Credential) -> x509.Certificate | None:
    """Return the certificate in the file, if the certificate matches the key file."""
    try:
        certificate = x509.load_pem_x509_certificates(credential.certificate.read_bytes())[0]
        key = load_key(credential.key.read_bytes())
    except (OSError, ValueError, PkiError):
        return None
    return certificate if is_same_public_key(certificate.public_key(), key.public_key()) else None


def ensure_unknown_device(folder: Path, writer: FileWriter, now: datetime) -> Credential:
    """Create a certificate of an authority that no tenant trusts, unless the files exist."""
    credential = Credential("laptop.nowhere.example", folder / "laptop.pem", folder / "laptop.key")
    certificate = read_matching_certificate(credential)
    if certificate is not None and certificate.not_valid_after_utc > now + _DAY:
        return credential
    root_key, issuing_key, key = generate_key(), generate_key(), generate_key()
    root = issue_root(
        PROFILES["root"], key=root_key, subject=subject_name("Nowhere Root CA"), now=now, serial=random_serial()
    )
    issuing = issue(
        PROFILES["issuing"],
        public_key=issuing_key.public_key(),
        subject=subject_name("Nowhere Issuing CA"),
        issuer=Issuer(root, root_key),
        now=now,
        serial=random_serial(),
    )
    leaf = issue(
        PROFILES[DEVICE.profile],
        public_key=key.public_key(),
        subject=subject_name(credential.identity),
        issuer=Issuer(issuing, issuing_key),
        now=now,
        serial=random_serial(),
    )
    writer.add(credential.certificate, certificates_pem([leaf, issuing]))
    writer.add(credential.key, key_pem(key))
    return credential


_SCEP_LIFE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class EstAccess:
    url: str
    user: str
    secret: str
    # File with the authority of the enrolment server; None unless Admit created the server's certificate.
    ca: Path | None


def create_est_access(domain: CommandContext, slug: str, folder: Path) -> EstAccess:
    with domain.tenant(slug) as (session, tenant_id):
        made = enrolment.create_secret(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind="est",
            profile="eap-client-device",
            now=utc_now(),
            any_name=True,
        )
    url = f"{domain.settings.enrolment_url}/.well-known/est/{slug}"
    return EstAccess(url, made.token.public_id, made.token.secret, _server_ca(domain, folder))


def _server_ca(domain: CommandContext, folder: Path) -> Path | None:
    """Copy the certificate of the enrolment server's authority to a file that the user of the demo can read."""
    pem = read_text(authority_path(domain.settings.enrolment_certificate_file.parent))
    if not pem:
        return None
    writer, copy = FileWriter(), folder / "est-ca.pem"
    writer.add(copy, pem)
    writer.write()
    return copy


def create_scep_access(domain: CommandContext, slug: str) -> dict[str, str]:
    """Create SCEP settings with a new challenge for one device with any name."""
    with domain.tenant(slug) as (session, tenant_id):
        made = enrolment.create_secret(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind="scep",
            profile="eap-client-device",
            now=utc_now(),
            owner="Demo",
            any_name=True,
            life=_SCEP_LIFE,
        )
    return {"scep_url": scep.build_scep_url(domain.settings.public_url, slug), "scep_challenge": made.token.reveal()}
