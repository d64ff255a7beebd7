"""Certificates of the simulated devices, issued by the tenant and by other authorities."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import PLAYED_PROFILE, SELF_TEST_PROFILE
from nac.certificates import intents
from nac.certificates import service as certificates
from nac.certificates.certificate_names import SERVER_PROFILE
from nac.certificates.issuance import get_dns_names
from nac.certificates.repository import get_newest_server
from nac.certificates.signing import SigningContext
from nac.kit.ids import TenantId
from nac.models import Certificate
from nac.onboarding.self_tests import service
from nac.onboarding.self_tests.supplicant import DeviceIdentity
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key
from pki.names import read_organisation, subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial

# Lifetime of the certificates. A test takes seconds. If a crash leaves certificates unrevoked, they expire soon.
CERTIFICATE_LIFETIME = timedelta(minutes=30)
GOOD, REVOKED = "good", "revoked"


@dataclass(frozen=True, slots=True)
class IssuedIdentity:
    identity: DeviceIdentity
    serial: str
    root: x509.Certificate
    # DNS name of the server; "" if the tenant has no server certificate with a DNS name.
    server_name: str


def issue_identity(
    session: Session, *, actor: str, tenant_id: TenantId, name: str, signing: SigningContext, now: datetime
) -> IssuedIdentity:
    """Issue a certificate that is valid only in self-tests. Commits the session before signing."""
    reservation = certificates.reserve_certificate(
        session,
        actor=actor,
        tenant_id=tenant_id,
        profile=SELF_TEST_PROFILE,
        common_name=name,
        signing=signing,
        now=now,
        not_after=now + CERTIFICATE_LIFETIME,
    )
    key = generate_key(reservation.rules.key)
    row = certificates.sign_certificate(
        session, reservation, actor=actor, public_key=key.public_key(), signing=signing, now=now
    )
    issued = certificates.load_with_chain(session, row, key)
    server = get_newest_server(session, tenant_id, SERVER_PROFILE)
    names = get_dns_names(server) if server else []
    chain = issued.certificate, *issued.intermediates
    return IssuedIdentity(DeviceIdentity(name, chain, key), row.serial.hex(), issued.root, names[0] if names else "")


def certificate_name(run: str, kind: str) -> str:
    return f"self-test-{run}-{kind}"


def revoke_leftovers(session: Session, *, actor: str, tenant_id: TenantId, runs: Sequence[str], now: datetime) -> None:
    """Revoke the valid certificates of earlier runs that did not end, and abandon their intended certificates."""
    names = [certificate_name(run, kind) for run in runs for kind in (GOOD, REVOKED)]
    which = Certificate.common_name.in_(names)
    intents.abandon_intents(session, actor=actor, tenant_id=tenant_id, which=which, now=now)
    for serial in service.list_valid_certificates(session, tenant_id, names):
        certificates.revoke_certificate(
            session, actor=actor, tenant_id=tenant_id, serial=serial.hex(), reason="cessationOfOperation", now=now
        )


def build_foreign_identity(name: str, *, now: datetime, imitated: x509.Certificate | None = None) -> DeviceIdentity:
    """Create authorities that do not belong to the tenant, and a device certificate that they issue.

    With `imitated` (an issuing authority), the new authorities have the names of `imitated` and its root, but other
    keys.
    """
    organisation = read_organisation(imitated.subject) if imitated else "Another tenant"
    root_key, issuing_key, key = generate_key(), generate_key(), generate_key()
    root_name = imitated.issuer if imitated else subject_name(f"{organisation} Root CA", organisation=organisation)
    own_name = imitated.subject if imitated else subject_name(f"{organisation} Issuing CA", organisation=organisation)
    root = issue_root(PROFILES["root"], key=root_key, subject=root_name, now=now, serial=random_serial())
    issuing = issue(
        PROFILES["issuing"],
        public_key=issuing_key.public_key(),
        subject=own_name,
        issuer=Issuer(root, root_key),
        now=now,
        serial=random_serial(),
    )
    certificate = issue(
        PROFILES[PLAYED_PROFILE],
        public_key=key.public_key(),
        subject=subject_name(name, organisation=organisation),
        issuer=Issuer(issuing, issuing_key),
        now=now,
        serial=random_serial(),
        not_after=now + CERTIFICATE_LIFETIME,
    )
    return DeviceIdentity(name, (certificate, issuing), key)
