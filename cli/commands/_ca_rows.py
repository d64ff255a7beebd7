"""Rows for authorities."""

from sqlalchemy.orm import Session

from cli.output import Row
from nac.certificates import external_authorities, status_refresh
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority, StatusSource


def authority_row(session: Session, tenant_id: TenantId, authority: CertificateAuthority) -> dict[str, object]:
    source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=authority.id)
    return {
        "id": str(authority.id),
        "kind": authority.kind,
        "name": authority.name,
        "status": authority.status,
        "not_after": authority.not_after.isoformat(),
        "revocations": freshness(source),
    }


def status_rows(session: Session, source: StatusSource | None) -> Row:
    """Source and age of status for an external authority; empty for Admit's own authorities."""
    if source is None:
        return {}
    ocsp = status_refresh.get_ocsp_state(session, tenant_id=source.tenant_id, authority_id=source.authority_id)
    return {
        "crl_url": source.crl_url,
        "ocsp_url": source.ocsp_url,
        "crl_number": None if source.crl_number is None else str(source.crl_number),
        "crl_this_update": source.crl_this_update and source.crl_this_update.isoformat(),
        "crl_next_update": source.crl_next_update and source.crl_next_update.isoformat(),
        "crl_checked_at": source.crl_checked_at and source.crl_checked_at.isoformat(),
        "crl_failure": source.crl_failure,
        "ocsp_certificates": ocsp.certificates,
        "ocsp_checked_at": ocsp.checked_at and ocsp.checked_at.isoformat(),
        "ocsp_failures": ocsp.failures,
        "ocsp_failure": ocsp.failure,
    }


def freshness(source: StatusSource | None) -> str:
    """Short text for the age of the list in force, and whether the last attempt to fetch one failed."""
    if source is None:
        return "ours"
    if source.crl_this_update is None or source.crl_next_update is None:
        return "no list, failed" if source.crl_failure else "no list"
    age = utc_now() - source.crl_this_update
    hours = int(age.total_seconds() // 3600)
    old = f"{hours // 24} days old" if hours >= 48 else f"{hours} hours old"
    overdue = "" if source.crl_next_update > utc_now() else ", overdue"
    return old + overdue + (", failed" if source.crl_failure else "")
