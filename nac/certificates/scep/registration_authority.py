"""A tenant's SCEP registration authority: a certificate whose RSA key decrypts requests and signs responses.

SCEP needs an RSA key, but the issuing authority has an ECDSA key. Admit creates the certificate on first use. Admit
replaces the certificate before it expires or if the issuing authority changes. Old certificates work until they expire,
because devices cache the certificates.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy.orm import Session

from nac.certificates import repository as certificates
from nac.certificates.issuance import CertificateReservation, load_with_chain, reserve_certificate, sign_certificate
from nac.certificates.signing import SigningContext
from nac.kit.db import commit_intent
from nac.kit.ids import TenantId
from nac.models import Certificate
from pki.cms import certificates_only
from pki.keys import generate_key, key_pem, load_key
from pki.scep import ScepResponder

PROFILE = "scep-ra"
_COMMON_NAME = "SCEP registration authority"
_ACTOR = "scep"
# Admit replaces the certificate 30 days before it expires, or when a third of its validity is left if this is later.
# Devices fetch the certificate when they enrol, and some cache it for days.
_RENEWED_BEFORE = timedelta(days=30)


def ensure_registration_authority(
    session: Session, *, tenant_id: TenantId, signing: SigningContext, now: datetime
) -> Sequence[Certificate]:
    """Return the tenant's valid registration authority certificates, newest first. Creates a certificate if needed.

    Raises Conflict if the tenant has no issuing authority.
    """
    rows = certificates.list_usable_by_profile(session, tenant_id, PROFILE, now)
    if not _is_current(session, tenant_id, rows, now):
        certificates.lock_tenant(session, tenant_id)
        rows = certificates.list_usable_by_profile(session, tenant_id, PROFILE, now)
        if not _is_current(session, tenant_id, rows, now):
            reservation = reserve_certificate(
                session,
                actor=_ACTOR,
                tenant_id=tenant_id,
                profile=PROFILE,
                common_name=_COMMON_NAME,
                signing=signing,
                now=now,
            )
            commit_intent(session)
            certificates.lock_tenant(session, tenant_id)
            # If another process has created a certificate meanwhile, the worker later abandons this reservation.
            rows = certificates.list_usable_by_profile(session, tenant_id, PROFILE, now)
            if not _is_current(session, tenant_id, rows, now):
                rows = [_issue_certificate(session, reservation, signing, now), *rows]
    return rows


def _is_current(session: Session, tenant_id: TenantId, rows: Sequence[Certificate], now: datetime) -> bool:
    issuing = certificates.get_active_issuing(session, tenant_id)
    if issuing is None or not rows:
        return False
    newest = rows[0]
    # Do not replace a certificate that lasts as long as its issuer: a new certificate would not last longer.
    before = min(_RENEWED_BEFORE, (newest.not_after - newest.not_before) / 3)
    lasts = newest.not_after - now > before or newest.not_after >= issuing.not_after
    return newest.authority_id == issuing.id and lasts


def _issue_certificate(
    session: Session, reservation: CertificateReservation, signing: SigningContext, now: datetime
) -> Certificate:
    key = generate_key(reservation.rules.key)
    row = sign_certificate(session, reservation, actor=_ACTOR, public_key=key.public_key(), signing=signing, now=now)
    row.key_sealed = signing.sealer.seal(key_pem(key), f"certificate:{row.id}")
    session.flush()
    return row


def build_responder(row: Certificate, signing: SigningContext) -> ScepResponder:
    """Return the SCEP responder of a registration authority, with the decrypted private key."""
    assert row.certificate_der is not None
    assert row.key_sealed is not None
    key = load_key(signing.sealer.open(row.key_sealed, f"certificate:{row.id}"), made_here=True)
    assert isinstance(key, rsa.RSAPrivateKey)
    return ScepResponder(x509.load_der_x509_certificate(row.certificate_der), key)


def get_ca_certificates(session: Session, row: Certificate) -> bytes:
    """Return the response to GetCACert: the certificates from the registration authority up to the root."""
    chain = load_with_chain(session, row, None)
    return certificates_only([chain.certificate, *chain.intermediates, chain.root])
