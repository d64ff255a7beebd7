"""Checks whether Admit would now accept the certificate that admitted a device.

The check uses current data. The cell verified the signature at login, so this module does not verify the signature
again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.cellformat.replica.record_builder import AuthorityRow, issuer_records
from nac.cellformat.replica.records import ExternalStatusRecord, IssuerRecord, TrustedAuthority
from nac.engine.admission import refuse_certificate
from nac.models import Certificate, CertificateAuthority, ExternalStatus, StatusSource, Tenant


class OwnCertificate(NamedTuple):
    """A certificate issued by Admit."""

    authority_id: str
    status: str
    profile: str
    not_before: datetime
    not_after: datetime


class AuthorityUnclear(Exception):
    """Several external authorities have the same name as the issuer, so the authority of the certificate is unknown."""


class TenantTrust:
    """The authorities that a tenant trusts, and the statuses of certificates.

    `serials` are the serial numbers (hexadecimal) of the certificates that `refusal` can check.
    """

    def __init__(self, session: Session, tenant: Tenant, serials: Sequence[str]) -> None:
        self._is_status_required = tenant.status_failure == "hard"
        numbers = [bytes.fromhex(serial).lstrip(b"\0") for serial in serials]
        self._issuers = _load_issuers(session, tenant)
        self.own = _load_own(session, tenant, numbers) if numbers else {}
        self._statuses = _load_statuses(session, tenant, numbers) if numbers else {}

    def refusal(self, issuer: str, serial: str, at: int) -> str:
        """Return a reason to reject a certificate (nac.engine.reasons), or "". `at` is in epoch seconds.

        Raises AuthorityUnclear.
        """
        found = self._issuers.get(issuer)
        if found is None:
            return "unknown-ca"
        serial = serial.lower().lstrip("0")
        authority = self._authority(found, serial)
        if authority is None:
            return "certificate-unknown"
        own = self.own.get(serial) if authority.own else None
        external = None if authority.own else self._statuses.get((authority.authority_id, serial))
        return refuse_certificate(authority, own, external, now_seconds=at, is_status_required=self._is_status_required)

    def get_own(self, serial: str) -> OwnCertificate | None:
        return self.own.get(serial.lower().lstrip("0"))

    def _authority(self, issuer: IssuerRecord, serial: str) -> TrustedAuthority | None:
        own = self.own.get(serial)
        if own is not None:
            for authority in issuer.authorities:
                if authority.authority_id == own.authority_id:
                    return authority
        external = [authority for authority in issuer.authorities if not authority.own]
        if len(external) > 1:
            raise AuthorityUnclear
        return external[0] if external else None


def _load_issuers(session: Session, tenant: Tenant) -> Mapping[str, IssuerRecord]:
    rows = session.execute(
        select(CertificateAuthority, StatusSource.crl_next_update)
        .outerjoin(
            StatusSource,
            (StatusSource.tenant_id == CertificateAuthority.tenant_id)
            & (StatusSource.authority_id == CertificateAuthority.id),
        )
        .where(CertificateAuthority.tenant_id == tenant.id)
        .order_by(CertificateAuthority.not_before.desc(), CertificateAuthority.id)
    )
    records = issuer_records(
        AuthorityRow(
            str(row.id),
            tenant.number,
            row.subject,
            row.kind != "external",
            row.status == "revoked",
            str(row.issuer_id) if row.issuer_id else None,
            row.certificate_der,
            int(row.not_after.timestamp()),
            int(listed_until.timestamp()) if listed_until else 0,
        )
        for row, listed_until in rows
    )
    return {subject: record for (_, subject), record in records.items()}


def _load_own(session: Session, tenant: Tenant, serials: Sequence[bytes]) -> Mapping[str, OwnCertificate]:
    query = select(
        func.encode(Certificate.serial, "hex"),
        Certificate.authority_id,
        Certificate.status,
        Certificate.profile,
        Certificate.not_before,
        Certificate.not_after,
    ).where(
        Certificate.tenant_id == tenant.id,
        Certificate.serial.in_(serials),
        Certificate.status.not_in(("intended", "abandoned")),
    )
    return {row[0].lstrip("0"): OwnCertificate(str(row[1]), *row[2:]) for row in session.execute(query)}


def _load_statuses(
    session: Session, tenant: Tenant, serials: Sequence[bytes]
) -> Mapping[tuple[str, str], ExternalStatusRecord]:
    query = select(ExternalStatus).where(ExternalStatus.tenant_id == tenant.id, ExternalStatus.serial.in_(serials))
    statuses: dict[tuple[str, str], ExternalStatusRecord] = {}
    for row in session.scalars(query):
        authority: UUID = row.authority_id
        until = int(row.until.timestamp()) if row.until else 0
        status = ExternalStatusRecord(row.listed or row.answer == "revoked", until)
        statuses[str(authority), row.serial.hex().lstrip("0")] = status
    return statuses
