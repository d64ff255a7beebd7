from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Row, func, or_, select, true
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.models import AccountingLog, Nas, Site
from nac.sessions.log_search import LogKey, LogStretch, restrict_to_stretch

AccountingRow = Row[AccountingLog, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingFilter:
    """Filters, all of which must match; "" and None mean any."""

    # 12 lower-case hexadecimal digits.
    mac: str = ""
    # User-Name, case-insensitive.
    user: str = ""
    # Name of the registered NAS, or its address.
    nas: str = ""
    site_id: UUID | None = None
    session_id: str = ""
    # Acct-Status-Type by name (RFC 2866 5.1), case-insensitive.
    status_type: str = ""

    @property
    def reads_rows(self) -> bool:
        """Whether rows must be read to filter: the log is indexed by time only."""
        return self != AccountingFilter()


def list_stretch(
    session: Session, tenant_id: TenantId, wanted: AccountingFilter, stretch: LogStretch, limit: int
) -> Sequence[AccountingRow]:
    """List a stretch in its order, with the current names of NAS and site."""
    return _list_with_names(session, tenant_id, stretch, _filter_clause(wanted), limit)


def get(session: Session, tenant_id: TenantId, key: LogKey) -> AccountingRow | None:
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
