"""Certificates that were issued, that ended before their time, and that end soon."""

from datetime import datetime
from typing import Literal

from nac.decisions.recorded import microseconds_of
from nac.events.document import VERSION, X509, Certificate, Event, EventPart, Subject
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, line, moment, text
from nac.models import Certificate as CertificateRow


def issued(row: CertificateRow, *, tenant: Tenant) -> Event:
    return _certificate(row, "issued", "issued", row.created_at, tenant)


def ended(row: CertificateRow, *, tenant: Tenant) -> Event:
    """Of one that is revoked or suspended; reinstated and ended again, it has another id."""
    if row.status not in ("revoked", "suspended") or row.revoked_at is None:
        raise ValueError("the certificate is neither revoked nor suspended")
    status: Literal["revoked", "suspended"] = "revoked" if row.status == "revoked" else "suspended"
    return _certificate(row, status, f"{status}:{microseconds_of(row.revoked_at)}", row.revoked_at, tenant)


def expiring(row: CertificateRow, *, days: int, warned_at: datetime, tenant: Tenant) -> Event:
    """It ends within `days`: one of nac.certificates.expiry.WINDOWS, each of which is warned of once."""
    return _certificate(row, "expiring", f"expiring:{days}", warned_at, tenant, days=days)


def _certificate(
    row: CertificateRow,
    status: Literal["issued", "revoked", "suspended", "expiring"],
    what: str,
    at: datetime,
    tenant: Tenant,
    *,
    days: int | None = None,
) -> Event:
    serial = row.serial.hex()
    within = f" within {days} days" if days is not None else ""
    return Event(
        timestamp=moment(at),
        ecs=ECS,
        event=EventPart(
            id=f"certificate:{row.id}:{what}",
            kind="event",
            category=("configuration",),
            type=({"issued": "creation", "expiring": "info"}.get(status, "change"),),
            dataset="admit.certificate",
            action=f"certificate-{status}",
            reason=text(row.revocation_reason),
        ),
        message=line(f"Certificate {serial} of {row.common_name} {status}{within}"),
        organization=organization(tenant),
        x509=X509(
            serial_number=serial.upper(),
            subject=Subject(common_name=(text(row.common_name),), distinguished_name=text(row.subject)),
            not_before=moment(row.not_before),
            not_after=moment(row.not_after),
        ),
        admit=Certificate(
            version=VERSION,
            status=status,
            profile=text(row.profile),
            revocation_reason=text(row.revocation_reason),
            days=days,
        ),
    )
