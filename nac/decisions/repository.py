from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Row, func, select, tuple_
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import AuthLog, Nas, Site


def list_page(
    session: Session,
    tenant_id: TenantId,
    *,
    mac: str,
    user: str,
    reason: str,
    since: datetime | None,
    before: tuple[datetime, int] | None,
    limit: int,
) -> Sequence[Row[AuthLog, str | None, str | None]]:
    """Newest first, with the NAS's name and the site's slug as they are now. "" and None leave a filter out."""
    query = (
        select(AuthLog, Nas.name, Site.slug)
        .outerjoin(Nas, (Nas.tenant_id == AuthLog.tenant_id) & (Nas.id == AuthLog.nas_id))
        .outerjoin(Site, (Site.tenant_id == AuthLog.tenant_id) & (Site.id == AuthLog.site_id))
        .where(AuthLog.tenant_id == tenant_id)
        .order_by(AuthLog.at.desc(), AuthLog.id.desc())
        .limit(limit)
    )
    if mac:
        query = query.where(AuthLog.mac == mac)
    if user:
        query = query.where(func.lower(AuthLog.identity) == user.lower())
    if reason:
        query = query.where(AuthLog.reason == reason)
    if since is not None:
        query = query.where(AuthLog.at >= since)
    if before is not None:
        # The bound on `at` alone is what leaves out partitions.
        query = query.where(AuthLog.at <= before[0], tuple_(AuthLog.at, AuthLog.id) < before)
    return session.execute(query).all()
