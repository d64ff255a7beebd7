"""Accounting log: the stored Accounting-Requests of NASes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Row, func, or_, select, true
from sqlalchemy.orm import Session

from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac
from nac.models import AccountingLog, Nas, Site
from nac.sessions.decisions.recorded_requests import parse_reference, to_microseconds
from nac.sessions.log_search import LogKey, LogSearchResult, LogStretch, restrict_to_stretch, search_log
from nac.tenancy import sites

AccountingRow = Row[AccountingLog, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilter:
    """Filter of accounting records. All values of the filter must match; "" and None match every record."""

    # MAC address, 12 lower-case hexadecimal digits.
    mac: str = ""
    # User-Name. Case is ignored.
    user: str = ""
    # Name of the registered NAS, or the address of the NAS.
    nas: str = ""
    site_id: UUID | None = None
    session_id: str = ""
    # Name of the Acct-Status-Type (RFC 2866 5.1). Case is ignored.
    status_type: str = ""

    @property
    def reads_rows(self) -> bool:
        """Whether the filter must read rows, because the log has an index only by time."""
        return self != AccountingFilter()


class AccountingRecordNotFound(NotFound):
    """The accounting record does not exist."""


@dataclass(frozen=True, slots=True)
class LoggedAccounting:
    log: AccountingLog
    # Name of the NAS, or the address of an unregistered NAS.
    nas: str
    # Slug of the site. "" if the record has no site, or the site was deleted.
    site: str

    @property
    def reference(self) -> str:
        """Return the public id of the record."""
        return f"{to_microseconds(self.log.at)}-{self.log.id}"


def search_accounting(
    session: Session,
    *,
    tenant_id: TenantId,
    mac: str = "",
    user: str = "",
    nas: str = "",
    site: str = "",
    session_id: str = "",
    status_type: str = "",
    before: LogKey | None = None,
    until: datetime | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> LogSearchResult[LoggedAccounting]:
    """Search accounting records from `before` to `until`.

    The search stops early when the time for one response is over. A short page therefore need not be the last page: see
    `LogSearchResult.next`.
    """
    wanted = AccountingFilter(
        mac=require_mac(mac) if mac else "",
        user=user,
        nas=nas,
        site_id=sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id if site else None,
        session_id=session_id,
        status_type=status_type,
    )
    found = search_log(
        session,
        AccountingLog,
        tenant_id=tenant_id,
        look=lambda stretch, most: _list_stretch(session, tenant_id, wanted, stretch, most),
        key=lambda row: (row[0].at, row[0].id),
        reads_rows=wanted.reads_rows,
        before=before,
        until=until,
        limit=limit,
        oldest_first=oldest_first,
    )
    return LogSearchResult([_build_logged(row) for row in found.rows], found.next)


def require_accounting(session: Session, *, tenant_id: TenantId, reference: str) -> LoggedAccounting:
    """Return the record with this `LoggedAccounting.reference`. Raises AccountingRecordNotFound."""
    key = parse_reference(reference)
    found = _get_row(session, tenant_id, key) if key else None
    if found is None:
        raise AccountingRecordNotFound(f"Unknown accounting record {reference!r}.", place="record")
    return _build_logged(found)


def _build_logged(row: AccountingRow) -> LoggedAccounting:
    log, name, slug = row
    return LoggedAccounting(log, name or log.nas_address or "", slug or "")


def _list_stretch(
    session: Session, tenant_id: TenantId, wanted: AccountingFilter, stretch: LogStretch, limit: int
) -> Sequence[AccountingRow]:
    """List the matching records of a range of log rows, with the current names of NAS and site."""
    return _list_with_names(session, tenant_id, stretch, _filter_clause(wanted), limit)


def _get_row(session: Session, tenant_id: TenantId, key: LogKey) -> AccountingRow | None:
    found = _list_with_names(session, tenant_id, LogStretch((key[0], key[1] + 1), key), true(), 1)
    return found[0] if found else None


def _list_with_names(
    session: Session, tenant_id: TenantId, stretch: LogStretch, fits: ColumnElement[bool], limit: int
) -> Sequence[AccountingRow]:
    query = (
        select(AccountingLog, Nas.name, Site.slug)
        .outerjoin(Nas, (Nas.tenant_id == AccountingLog.tenant_id) & (Nas.id == AccountingLog.nas_id))
        .outerjoin(Site, (Site.tenant_id == AccountingLog.tenant_id) & (Site.id == AccountingLog.site_id))
        .where(AccountingLog.tenant_id == tenant_id, fits)
        .limit(limit)
    )
    return session.execute(restrict_to_stretch(query, AccountingLog, stretch)).all()


def _filter_clause(wanted: AccountingFilter) -> ColumnElement[bool]:
    fits: ColumnElement[bool] = true()
    if wanted.mac:
        fits &= AccountingLog.mac == wanted.mac
    if wanted.user:
        fits &= func.lower(AccountingLog.identity) == wanted.user.lower()
    if wanted.nas:
        named = wanted.nas.lower()
        fits &= or_(func.lower(Nas.name) == named, func.host(AccountingLog.nas_address) == named)
    if wanted.site_id is not None:
        fits &= AccountingLog.site_id == wanted.site_id
    if wanted.session_id:
        fits &= AccountingLog.session_id == wanted.session_id
    if wanted.status_type:
        fits &= func.lower(AccountingLog.status_type) == wanted.status_type.lower()
    return fits
