"""Refresh of the certificate status of external authorities: sends a request to the worker and prints the result."""

import time

from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.output import Row, show_list
from nac.certificates import external_authorities, status_refresh
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority, StatusSource

# The worker fetches statuses every 20 s. If a tenant's servers do not respond, a fetch takes up to a minute.
_ANSWERED_SECONDS = 90
_PAUSE_SECONDS = 0.5


def refresh_statuses(authority: str | None, tenant: str, *, as_json: bool) -> bool:
    """Print the result of the refresh, and return whether every source was fetched.

    Raises Refused if the worker is too slow.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        asked = status_refresh.request_refresh(session, tenant_id=tenant_id, which=authority, now=utc_now())
    _await_answers(domain, tenant, asked)
    rows: list[Row] = []
    with domain.tenant(tenant) as (session, tenant_id):
        for found in asked.authorities:
            source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=found.id)
            shown = _authority_row(session, tenant_id, found)
            rows.append({**shown, "queries": asked.about(found.id), **_status_row(session, source)})
    show_list(rows if as_json else [_in_short(row) for row in rows], as_json=as_json)
    return all(row["queries"] and not row["crl_failure"] and not row["ocsp_failures"] for row in rows)


def _in_short(row: Row) -> Row:
    short = {name: row[name] for name in ("id", "name", "revocations", "queries")}
    return short | {"failure": row["crl_failure"] or row["ocsp_failure"]}


def _await_answers(domain: CommandContext, tenant: str, asked: status_refresh.RefreshRequest) -> None:
    deadline = time.monotonic() + _ANSWERED_SECONDS
    while True:
        with domain.tenant(tenant) as (session, tenant_id):
            if status_refresh.is_refresh_answered(session, asked, tenant_id=tenant_id, now=utc_now()):
                return
        if time.monotonic() > deadline:
            raise Refused(
                f"The worker did not fetch all statuses within {_ANSWERED_SECONDS} s.",
                remedy="The worker continues. See ./admit ca show for the result and ./admit status for the worker.",
            )
        time.sleep(_PAUSE_SECONDS)


def _authority_row(session: Session, tenant_id: TenantId, authority: CertificateAuthority) -> dict[str, object]:
    source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=authority.id)
    return {
        "id": str(authority.id),
        "kind": authority.kind,
        "name": authority.name,
        "status": authority.status,
        "not_after": authority.not_after.isoformat(),
        "revocations": freshness(source),
    }


def _status_row(session: Session, source: StatusSource | None) -> Row:
    """Return the sources and the age of an external authority's certificate status; {} for Admit's own authorities."""
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
    """Return a short text with the age of the current CRL, and whether the last attempt to fetch a CRL failed."""
    if source is None:
        return "ours"
    if source.crl_this_update is None or source.crl_next_update is None:
        return "no list, failed" if source.crl_failure else "no list"
    age = utc_now() - source.crl_this_update
    hours = int(age.total_seconds() // 3600)
    old = f"{hours // 24} days old" if hours >= 48 else f"{hours} hours old"
    overdue = "" if source.crl_next_update > utc_now() else ", overdue"
    return old + overdue + (", failed" if source.crl_failure else "")
