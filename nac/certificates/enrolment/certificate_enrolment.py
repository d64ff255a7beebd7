"""Issues certificates for signing requests: first enrolments with a secret, and renewals.

The network can lose a response. Within REPEAT_WINDOW, a repeated request gets the same certificate as the first
request.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session

from nac.certificates import repository as certificates
from nac.certificates.enrolment import repository
from nac.certificates.enrolment.errors import AnswerUnderWay, NameRefused, RenewalKeepsKey, RenewalRefused
from nac.certificates.enrolment.service import is_holder_barred
from nac.certificates.errors import CertificateNotFound
from nac.certificates.issuance import CLIENT_PROFILES, ClientProfile, IssuedCertificate, issue_client, load_with_chain
from nac.certificates.signing import SigningContext
from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.models import Certificate, EnrolmentSecret, Tenant
from pki.keys import public_key_digest
from pki.names import San, parse_san, read_sans
from pki.serials import serial_bytes
from pki.signing_requests import SigningRequest

REPEAT_WINDOW = timedelta(minutes=10)


def find_repeated_enrolment(
    session: Session, *, secret: EnrolmentSecret, request: SigningRequest, now: datetime
) -> IssuedCertificate | None:
    """Return the certificate that Admit issued with `secret` for the request's key within REPEAT_WINDOW, or None.

    The caller holds the lock of `secret`.
    """
    digest = public_key_digest(request.public_key)
    row = repository.find_issued_with_secret(session, secret, public_key_sha256=digest, since=now - REPEAT_WINDOW)
    return _load_repeated(session, row, request)


def find_repeated_renewal(
    session: Session, *, old: Certificate, request: SigningRequest, now: datetime
) -> IssuedCertificate | None:
    """Return the renewal of `old` that Admit issued for the request's key within REPEAT_WINDOW, or None.

    `old` comes from `require_renewable`.
    """
    digest = public_key_digest(request.public_key)
    row = repository.find_issued_to_renew(session, old, public_key_sha256=digest, since=now - REPEAT_WINDOW)
    return _load_repeated(session, row, request)


def _load_repeated(session: Session, row: Certificate | None, request: SigningRequest) -> IssuedCertificate | None:
    """Return the certificate in `row`, or None if the request has names that differ from the certificate's names.

    Raises AnswerUnderWay while another process signs the certificate.
    """
    if row is not None and row.status == "intended":
        raise AnswerUnderWay
    if row is None or request.common_name not in ("", row.common_name):
        return None
    issued = load_with_chain(session, row, None)
    return issued if set(request.sans) <= set(read_sans(issued.certificate)) else None


def enrol(
    session: Session,
    *,
    actor: str,
    secret: EnrolmentSecret,
    request: SigningRequest | None,
    signing: SigningContext,
    now: datetime,
) -> IssuedCertificate:
    """Issue a certificate for a redeemed secret. Without a request, the result contains a new private key, which Admit
    does not store.

    The function commits the secret's number of uses before it signs. If the signature fails, Admit later subtracts this
    use. Raises NameRefused, DuplicateKey or CertificateRefused.
    """
    common_name, sans = resolve_names(secret, request)
    issued = issue_client(
        session,
        actor=actor,
        tenant_id=secret.tenant_id,
        profile=cast(ClientProfile, secret.profile),
        common_name=common_name,
        sans=sans,
        public_key=request.public_key if request else None,
        signing=signing,
        now=now,
        endpoint_id=secret.endpoint_id,
        user_id=secret.user_id,
        secret_id=secret.id,
    )
    audit.append(
        session,
        actor=actor,
        action="enrolment-secret.redeem",
        target=secret.public_id,
        tenant_id=secret.tenant_id,
        after={"serial": issued.serial.hex(), "uses": secret.uses, "owner": secret.owner},
    )
    return issued


class NameBinding(Protocol):
    """The names that an enrolment secret or webhook permits for a certificate."""

    @property
    def common_name(self) -> str | None: ...

    @property
    def sans(self) -> Sequence[str]: ...


def resolve_names(secret: NameBinding, request: SigningRequest | None) -> tuple[str, tuple[San, ...]]:
    """Return common name and alternative names for a certificate: from the secret or, if it has none, from the request.

    Without a common name, one of the alternative names becomes the common name.
    """
    bound = tuple(map(parse_san, secret.sans))
    proposed = request.common_name if request else ""
    if secret.common_name is None and not bound:
        sans = request.sans if request else ()
        common_name = proposed or next((item.value for item in sans), "")
        if not common_name:
            raise NameRefused("The certificate request has no name.", place="subject", remedy="Add a common name.")
        return common_name, sans
    if secret.common_name is not None:
        common_name, fits = secret.common_name, proposed == secret.common_name
    else:
        same = [item.value for item in bound if item.value.lower() == proposed.lower()]
        common_name, fits = (same or [bound[0].value])[0], bool(same)
    if proposed and not fits:
        raise NameRefused(
            f"The common name is {proposed!r}, but the secret requires {common_name!r}.",
            place="subject",
            remedy="Use the common name that the secret requires, or omit the common name.",
        )
    _require_allowed_names(bound, request.sans if request else ())
    return common_name, bound


def _require_allowed_names(bound: Iterable[San], proposed: Iterable[San]) -> None:
    allowed = [str(item).lower() for item in bound]
    if foreign := [str(item) for item in proposed if str(item).lower() not in allowed]:
        raise NameRefused(
            f"The enrolment secret does not permit {', '.join(foreign)}.",
            place="subjectAltName",
            remedy=f"The secret permits {', '.join(allowed) or 'no alternative names'}. Remove all other names.",
        )


def require_renewable(session: Session, *, tenant_id: TenantId, shown: x509.Certificate, now: datetime) -> Certificate:
    """Return the row of `shown`, the certificate that a device presents for renewal.

    The caller has verified that the device has the private key. `shown` must equal an issued certificate byte for byte,
    because a comparison of issuer names and key identifiers would accept forged certificates. Raises RenewalRefused.
    """
    certificates.lock_tenant_shared(session, tenant_id)
    row = certificates.get_by_serial(session, tenant_id, serial_bytes(shown.serial_number), lock=True)
    if row is None or row.certificate_der != shown.public_bytes(Encoding.DER):
        raise RenewalRefused("The tenant did not issue this certificate.", place="certificate")
    _require_good(session, row)
    if not row.not_before <= now <= row.not_after:
        raise RenewalRefused(
            "The certificate has expired or is not valid yet.",
            place="certificate",
            remedy="Enrol again with a new secret from your administrator.",
        )
    return row


def require_renewable_by_admin(session: Session, *, tenant_id: TenantId, serial: bytes) -> Certificate:
    """Return the row of a certificate that an administrator renews for its holder. The certificate may have expired.

    Raises CertificateNotFound or RenewalRefused.
    """
    certificates.lock_tenant_shared(session, tenant_id)
    row = certificates.get_by_serial(session, tenant_id, serial, lock=True)
    if row is None:
        raise CertificateNotFound(f"Certificate {serial.hex()} does not exist.", place="serial")
    _require_good(session, row)
    return row


def _require_good(session: Session, row: Certificate) -> None:
    tenant_id = row.tenant_id
    authority = certificates.get_authority(session, tenant_id, row.authority_id)
    if authority is None or authority.status == "revoked":
        raise RenewalRefused("The authority of the certificate is revoked.", place="certificate")
    tenant = session.get(Tenant, tenant_id)
    if (
        tenant is None
        or tenant.status != "active"
        or is_holder_barred(session, tenant_id, row.endpoint_id, row.user_id)
    ):
        raise RenewalRefused(
            "The holder of the certificate is blocked or disabled, or the tenant is not active.", place="certificate"
        )
    if row.status != "valid":
        raise RenewalRefused(f"The certificate is {row.status}.", place="certificate")
    if row.profile not in CLIENT_PROFILES:
        raise RenewalRefused("Holders cannot renew certificates of this profile.", place="certificate")


def renew(
    session: Session,
    *,
    actor: str,
    old: Certificate,
    request: SigningRequest | None,
    signing: SigningContext,
    now: datetime,
) -> IssuedCertificate:
    """Renew `old` with the same profile, subject and alternative names (RFC 7030 4.2.2). `old` stays valid.

    `old` comes from `require_renewable` or `require_renewable_by_admin`. Without a request, the result contains a new
    private key, which Admit does not store. The request must have a new key, unless the tenant permits the old key.
    """
    assert old.certificate_der is not None
    sans = read_sans(x509.load_der_x509_certificate(old.certificate_der))
    if request is not None:
        _require_same_holder(session, old, request, sans)
    issued = issue_client(
        session,
        actor=actor,
        tenant_id=old.tenant_id,
        profile=cast(ClientProfile, old.profile),
        common_name=old.common_name,
        sans=sans,
        public_key=request.public_key if request else None,
        renews=old,
        signing=signing,
        now=now,
        endpoint_id=old.endpoint_id,
        user_id=old.user_id,
    )
    audit.append(
        session,
        actor=actor,
        action="certificate.renew",
        target=old.serial.hex(),
        tenant_id=old.tenant_id,
        after={"serial": issued.serial.hex()},
    )
    return issued


def _require_same_holder(session: Session, old: Certificate, request: SigningRequest, sans: Sequence[San]) -> None:
    tenant = session.get(Tenant, old.tenant_id)
    if public_key_digest(request.public_key) == old.public_key_sha256 and not (tenant and tenant.renewal_keeps_key):
        raise RenewalKeepsKey(
            "The request has the key of the old certificate.", place="key", remedy="Create a new key."
        )
    if request.common_name not in ("", old.common_name):
        raise NameRefused(
            f"The request has the common name {request.common_name!r}, but the certificate has {old.common_name!r}.",
            place="subject",
            remedy="Renew with the names of the old certificate (RFC 7030 4.2.2).",
        )
    if request.sans and set(request.sans) != set(sans):
        raise NameRefused(
            "The alternative names of the request differ from the names in the certificate.",
            place="subjectAltName",
            remedy="Renew with the names of the old certificate (RFC 7030 4.2.2).",
        )


def record_renewal_refusal(
    session: Session, *, actor: str, tenant_id: TenantId, shown: x509.Certificate, refused: RenewalRefused
) -> None:
    """Record in the audit log that Admit rejected a renewal.

    Call this function in a separate transaction, because the error rolls back the transaction of the renewal.
    """
    audit.append(
        session,
        actor=actor,
        action="certificate.refuse-renewal",
        target=serial_bytes(shown.serial_number).hex(),
        tenant_id=tenant_id,
        after={"why": refused.detail},
    )
