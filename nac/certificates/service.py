"""Functions to find, list, revoke, suspend and reinstate a tenant's certificates."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from nac.certificates import intents, repository
from nac.certificates.authorities import (
    create_tenant_authorities,
    list_authorities,
    list_authority_page,
    list_own_authority_certificates,
    require_authority,
)
from nac.certificates.errors import (
    CertificateNotFound,
    CertificateRefused,
    CertificateStatusConflict,
    translate_pki_errors,
)
from nac.certificates.issuance import (
    IssuedCertificate,
    issue_client,
    issue_server,
    load_with_chain,
    reserve_certificate,
    sign_certificate,
)
from nac.certificates.repository import ORDERS as ORDERS
from nac.certificates.status_changes import record_status_change
from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import Certificate
from nac.sessions.coa_requests import request_queue
from pki.bundles import build_pkcs12, certificates_pem
from pki.keys import key_pem

__all__ = [
    "REVOCATION_REASONS",
    "IssuedCertificate",
    "RevocationReason",
    "build_pem_files",
    "build_pkcs12_file",
    "create_tenant_authorities",
    "issue_client",
    "issue_server",
    "list_authorities",
    "list_authority_page",
    "list_certificates",
    "list_own_authority_certificates",
    "list_renewals",
    "load_with_chain",
    "parse_serial",
    "record_status_change",
    "reinstate_certificate",
    "require_authority",
    "require_by_serial",
    "reserve_certificate",
    "revoke_certificate",
    "sign_certificate",
    "suspend_certificate",
]
# Revocation reasons of RFC 5280 5.3.1, without the reasons for authorities and suspensions.
RevocationReason = Literal[
    "unspecified", "keyCompromise", "affiliationChanged", "superseded", "cessationOfOperation", "privilegeWithdrawn"
]
REVOCATION_REASONS: tuple[RevocationReason, ...] = get_args(RevocationReason)
HOLD_REASON = "certificateHold"
_SERIAL_HEX = re.compile(r"[0-9a-f]{1,40}")


def revoke_certificate(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    serial: str,
    now: datetime,
    reason: RevocationReason = "unspecified",
) -> Certificate:
    """Revoke a certificate and all its renewals permanently, because an attacker with the key may have renewed it.

    With the reason `superseded`, the renewals stay valid. For a certificate that is already revoked, the reason and the
    time of the revocation do not change.
    """
    if reason not in REVOCATION_REASONS:
        raise InvalidInput(
            f"Unknown reason {reason!r}.", place="reason", remedy=f"Use one of: {', '.join(REVOCATION_REASONS)}."
        )
    chain = [_require_signed(session, tenant_id, serial)]
    # The rows are locked. So a concurrent renewal is either complete, or it fails: it finds that the old certificate is
    # revoked, or that its own unsigned certificate is abandoned.
    for row in chain:
        if row.status != "revoked":
            _change_status(session, actor, row, "revoke", "revoked", reason=reason, since=now)
        if reason != "superseded":
            renewing = Certificate.renews_id == row.id
            intents.abandon_intents(session, actor=actor, tenant_id=tenant_id, which=renewing, now=now)
            chain += repository.list_renewals(session, row, lock=True)
    return chain[0]


def suspend_certificate(
    session: Session, *, actor: str, tenant_id: TenantId, serial: str, now: datetime
) -> Certificate:
    """Suspend a certificate until `reinstate_certificate`."""
    row = _require_signed(session, tenant_id, serial)
    if row.status == "suspended":
        return row
    if row.status == "revoked":
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} is permanently revoked.", place="serial")
    return _change_status(session, actor, row, "suspend", "suspended", reason=HOLD_REASON, since=now)


def reinstate_certificate(session: Session, *, actor: str, tenant_id: TenantId, serial: str) -> Certificate:
    """End the suspension of a certificate. Raises CertificateStatusConflict if the certificate is revoked."""
    row = _require_signed(session, tenant_id, serial)
    if row.status == "valid":
        return row
    if row.status == "revoked":
        raise CertificateStatusConflict(
            f"Certificate {row.serial.hex()} is permanently revoked.", place="serial", remedy="Issue a new certificate."
        )
    return _change_status(session, actor, row, "reinstate", "valid", reason="", since=None)


def require_by_serial(session: Session, *, tenant_id: TenantId, serial: str, lock: bool = False) -> Certificate:
    """Return the certificate with this serial number (hexadecimal, colons allowed)."""
    return _require_certificate(session, tenant_id, serial, lock=lock)


def list_renewals(session: Session, certificate: Certificate) -> Sequence[Certificate]:
    """Return the direct renewals of a certificate, oldest first."""
    return repository.list_renewals(session, certificate)


def list_certificates(
    session: Session,
    *,
    tenant_id: TenantId,
    status: str = "",
    profile: str = "",
    name: str = "",
    span: PageSpan | None = None,
) -> Sequence[Certificate]:
    """List certificates. `name` filters by a prefix of the common name."""
    return repository.search_certificates(
        session,
        tenant_id,
        status=status,
        profile=profile,
        name=name,
        which=None,
        span=span or ORDERS.first(),
        in_full=True,
    ).rows


def search_certificates(
    session: Session,
    *,
    tenant_id: TenantId,
    status: str = "",
    profile: str = "",
    name: str = "",
    which: ColumnElement[bool] | None = None,
    span: PageSpan,
) -> BoundedPage[Certificate]:
    """Search like `list_certificates`, but stop after a limited time (nac.kit.db.queries).

    `which` is an SQL condition, such as the result of `bulk_revocation.issued_to_clause`.
    """
    return repository.search_certificates(
        session, tenant_id, status=status, profile=profile, name=name, which=which, span=span
    )


def parse_serial(text: str) -> bytes:
    digits = text.strip().lower().replace(":", "").lstrip("0")
    if not _SERIAL_HEX.fullmatch(digits):
        raise InvalidInput(
            f"Invalid serial number {text!r}.", place="serial", remedy="Use a serial number of hexadecimal digits."
        )
    return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))


def build_pem_files(issued: IssuedCertificate) -> dict[str, bytes]:
    """Return the PEM files `cert` (certificate and intermediates), `chain` (intermediates), `ca` (root) and, if it is
    available, `key` (private key)."""
    files = {
        "cert": certificates_pem([issued.certificate, *issued.intermediates]),
        "chain": certificates_pem(issued.intermediates),
        "ca": certificates_pem([issued.root]),
    }
    if issued.key is not None:
        files["key"] = key_pem(issued.key)
    return files


def build_pkcs12_file(issued: IssuedCertificate, *, password: str, legacy: bool = False) -> bytes:
    """Return a PKCS#12 file with key, certificate, intermediates and root, encrypted with AES (`legacy`: 3DES)."""
    if issued.key is None:
        raise CertificateRefused(
            "The key is not available: only the device that created the signing request has the key.", place="key"
        )
    with translate_pki_errors():
        return build_pkcs12(
            friendly_name=issued.common_name,
            key=issued.key,
            certificate=issued.certificate,
            chain=[*issued.intermediates, issued.root],
            password=password,
            legacy=legacy,
        )


def _require_certificate(session: Session, tenant_id: TenantId, serial: str, *, lock: bool) -> Certificate:
    row = repository.get_by_serial(session, tenant_id, parse_serial(serial), lock=lock)
    if row is None:
        raise CertificateNotFound(
            f"Certificate {serial} does not exist.",
            place="serial",
            remedy=Advice("List certificates", "listCertificates"),
        )
    return row


def _require_signed(session: Session, tenant_id: TenantId, serial: str) -> Certificate:
    row = _require_certificate(session, tenant_id, serial, lock=True)
    if row.status in ("intended", "abandoned"):
        raise CertificateStatusConflict(f"Certificate {row.serial.hex()} was never issued.", place="serial")
    return row


def _change_status(
    session: Session,
    actor: str,
    row: Certificate,
    verb: str,
    status: Literal["valid", "suspended", "revoked"],
    *,
    reason: str,
    since: datetime | None,
) -> Certificate:
    before = {"status": row.status, "reason": row.revocation_reason}
    row.status, row.revocation_reason, row.revoked_at = status, reason, since
    record_status_change(session, row)
    if status == "valid":
        request_queue.withdraw_for_certificates(session, tenant_id=row.tenant_id, serials=[row.serial])
    else:
        request_queue.queue_disconnects(
            session,
            tenant_id=row.tenant_id,
            serials=[row.serial],
            reason=f"certificate-{status}",
            requested_by=actor,
        )
    audit.append(
        session,
        actor=actor,
        action=f"certificate.{verb}",
        target=row.serial.hex(),
        tenant_id=row.tenant_id,
        before=before,
        after={"status": status, "reason": reason, "common_name": row.common_name},
    )
    return row
