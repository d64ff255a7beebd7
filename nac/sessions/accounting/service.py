"""Service for the accounting log: the stored Accounting-Requests of NASes."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from nac.kit.errors import NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac
from nac.models import AccountingLog
from nac.sessions.accounting import repository
from nac.sessions.accounting.repository import AccountingRow
from nac.sessions.decisions.recorded_requests import parse_reference, to_microseconds
from nac.sessions.log_search import LogKey, LogSearchResult, search_log
from nac.tenancy.sites import service as sites


class AccountingRecordNotFound(NotFound):
    """The accounting record does not exist."""


@dataclass(frozen=True, slots=True)
class LoggedAccounting:
    log: AccountingLog
    # Name of the NAS, or the address of an unregistered one.
    nas: str
    # Slug; "" if it has no site or the site was deleted.
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
    """Search from `before` to `until`, within the time of one response. A short page may have more
    after it."""
    wanted = repository.AccountingFilter(
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
        look=lambda stretch, most: repository.list_stretch(session, tenant_id, wanted, stretch, most),
        key=lambda row: (row[0].at, row[0].id),
        reads_rows=wanted.reads_rows,
        before=before,
        until=until,
        limit=limit,
        oldest_first=oldest_first,
    )
    return LogSearchResult([_build_logged(row) for row in found.rows], found.next)


def require_accounting(session: Session, *, tenant_id: TenantId, reference: str) -> LoggedAccounting:
    """Find a record by `LoggedAccounting.reference`. Raises AccountingRecordNotFound."""
    key = parse_reference(reference)
    found = repository.get(session, tenant_id, key) if key else None
    if found is None:
        raise AccountingRecordNotFound(f"Unknown accounting record {reference!r}.", place="record")
    return _build_logged(found)


def _build_logged(row: AccountingRow) -> LoggedAccounting:
    log, name, slug = row
    return LoggedAccounting(log, name or log.nas_address or "", slug or "")
