"""Health of many tenants: requests and rejects of the last day, silent NASes and expiring certificates.

Lists compare all tenants that the caller can read. So the values of the sort order are read for all of these tenants,
and the other values only for the tenants of the page.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import ARRAY, Row, Uuid, bindparam
from sqlalchemy import text as sql_text
from sqlalchemy.orm import Session

from nac.core.access.grants import Principal, TenantRef
from nac.core.access.tenant_lookup import find_msp
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.tenancy.tenants import repository

HealthOrder = Literal["name", "requests", "reject_rate", "silent_nases"]
HOURS: Final = 24
SILENT_AFTER = timedelta(minutes=60)
# A NAS without a request for this time counts as taken out of service, not as silent.
FORGOTTEN_AFTER = timedelta(days=30)
EXPIRING_WITHIN = timedelta(days=30)
# Limit of expiring certificates of a tenant that are read.
MAX_EXPIRING = 5_000

# Value of the sort order; None if unknown. Then the id of the tenant.
HealthKey = tuple[str | int | float | None, UUID]


class HourCounts(NamedTuple):
    # Includes quarantined devices.
    permitted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class TenantHealth:
    """The fields that need a permission are None if the caller does not have the permission."""

    slug: str
    name: str
    # Slug of the MSP; None if the caller cannot read the MSP.
    msp: str | None
    status: str
    trial_ends_at: datetime | None
    # The last HOURS hours, oldest first. The last hour has begun and is not over.
    hours: Sequence[HourCounts] | None
    # Start of the minute or hour.
    last_request_at: datetime | None
    nases: int | None
    silent_nases: int | None
    expiring_certificates: int | None


@dataclass(frozen=True, slots=True)
class HealthPage:
    items: Sequence[TenantHealth]
    # Key of the last item; None on the last page.
    next: HealthKey | None


def list_health(
    session: Session,
    *,
    principal: Principal,
    order: HealthOrder,
    descending: bool,
    limit: int,
    after: HealthKey | None = None,
    msp: str = "",
    text: str = "",
    has_two_factors: bool = True,
    now: datetime | None = None,
) -> HealthPage:
    """List the health of the tenants that the principal can read. Tenants without a value of the order are last.

    `msp` is the slug or id of an MSP, and `text` a part of the tenant's slug or name. Needs a scope that can read the
    tenants.
    """
    now = now or utc_now()
    place = find_msp(session, msp) if msp else None
    if msp and place is None:
        return HealthPage((), None)
    rows = repository.list_reached(
        session,
        principal.reach(Permission.TENANT_READ),
        msp_id=place.msp_id if place else None,
        text=text,
        has_two_factors=has_two_factors,
    )
    tenants = {row.id: row for row in rows}
    values = _order_values(session, principal, order, tenants, now)
    keys = _sort_keys([(values.get(tenant_id), tenant_id) for tenant_id in tenants], descending=descending)
    if after is not None:
        keys = [key for key in keys if _is_behind(key, after, descending=descending)]
    page = [tenants[TenantId(tenant_id)] for _, tenant_id in keys[:limit]]
    return HealthPage(_describe(session, principal, page, now), keys[limit - 1] if len(keys) > limit else None)


def _order_values(
    session: Session,
    principal: Principal,
    order: HealthOrder,
    tenants: Mapping[TenantId, Row[*tuple[Any, ...]]],
    now: datetime,
) -> Mapping[TenantId, str | int | float | None]:
    if order == "name":
        return {tenant_id: row.name.casefold() for tenant_id, row in tenants.items()}
    if order == "silent_nases":
        watched = _filter_permitted(principal, Permission.NAS_READ, tenants.values())
        return {tenant_id: silent for tenant_id, (_, silent) in _count_nases(session, watched, now).items()}
    counted = _filter_permitted(principal, Permission.LOG_READ, tenants.values())
    totals = _count_totals(session, counted, now)
    if order == "requests":
        return {tenant_id: sum(totals.get(tenant_id, (0, 0))) for tenant_id in counted}
    return {tenant_id: rejected / (permitted + rejected) for tenant_id, (permitted, rejected) in totals.items()}


def _sort_keys(keys: Sequence[HealthKey], *, descending: bool) -> list[HealthKey]:
    known = sorted((key for key in keys if key[0] is not None), reverse=descending)
    # None equals None, so that the ids are compared.
    return known + sorted((key for key in keys if key[0] is None), reverse=descending)


def _is_behind(key: HealthKey, after: HealthKey, *, descending: bool) -> bool:
    if key[0] is None or after[0] is None:
        is_later = key[1] < after[1] if descending else key[1] > after[1]
        return key[0] is None and (after[0] is not None or is_later)
    return key < after if descending else key > after


def _describe(
    session: Session, principal: Principal, page: Sequence[Row[*tuple[Any, ...]]], now: datetime
) -> list[TenantHealth]:
    if not page:
        return []
    counted = _filter_permitted(principal, Permission.LOG_READ, page)
    nases = _count_nases(session, _filter_permitted(principal, Permission.NAS_READ, page), now)
    expiring = _count_expiring(session, _filter_permitted(principal, Permission.CERTIFICATE_READ, page), now)
    hours, last = _count_hours(session, counted, now), _find_last(session, counted)
    trials = _list_trial_ends(session, [row.id for row in page])
    return [
        TenantHealth(
            slug=row.slug,
            name=row.name,
            msp=row.msp,
            status=row.status,
            trial_ends_at=trials.get(row.id),
            hours=hours.get(row.id),
            last_request_at=last.get(row.id),
            nases=nases[row.id][0] if row.id in nases else None,
            silent_nases=nases[row.id][1] if row.id in nases else None,
            expiring_certificates=expiring.get(row.id),
        )
        for row in page
    ]


def _filter_permitted(
    principal: Principal, permission: Permission, rows: Iterable[Row[*tuple[Any, ...]]]
) -> list[TenantId]:
    reach = principal.reach(permission)
    return [row.id for row in rows if reach.covers(TenantRef(row.id, row.msp_id, row.is_msp_suspended))]


def _first_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) - (HOURS - 1) * timedelta(hours=1)


def _count_totals(session: Session, tenant_ids: Collection[TenantId], now: datetime) -> dict[TenantId, HourCounts]:
    statement = (
        "SELECT tenant_id, sum(permitted)::bigint, sum(rejected)::bigint FROM count_tenant_decisions(:wanted, :since)"
        " GROUP BY tenant_id"
    )
    rows = _read(session, statement, tenant_ids, since=_first_hour(now))
    return {tenant_id: HourCounts(permitted, rejected) for tenant_id, permitted, rejected in rows}


def _count_hours(
    session: Session, tenant_ids: Collection[TenantId], now: datetime
) -> Mapping[TenantId, Sequence[HourCounts]]:
    first = _first_hour(now)
    found: dict[TenantId, dict[datetime, HourCounts]] = defaultdict(dict)
    statement = "SELECT tenant_id, hour, permitted, rejected FROM count_tenant_decisions(:wanted, :since)"
    for tenant_id, hour, permitted, rejected in _read(session, statement, tenant_ids, since=first):
        found[tenant_id][hour] = HourCounts(permitted, rejected)
    hours = [first + number * timedelta(hours=1) for number in range(HOURS)]
    return {tenant_id: [found[tenant_id].get(hour, HourCounts(0, 0)) for hour in hours] for tenant_id in tenant_ids}


def _find_last(session: Session, tenant_ids: Collection[TenantId]) -> dict[TenantId, datetime | None]:
    return dict(_read(session, "SELECT tenant_id, last_at FROM find_last_decisions(:wanted)", tenant_ids))


def _count_nases(session: Session, tenant_ids: Collection[TenantId], now: datetime) -> dict[TenantId, tuple[int, int]]:
    statement = "SELECT tenant_id, nases, silent FROM count_tenant_nases(:wanted, :since, :until)"
    rows = _read(session, statement, tenant_ids, since=now - FORGOTTEN_AFTER, until=now - SILENT_AFTER)
    return {tenant_id: (count, silent) for tenant_id, count, silent in rows}


def _count_expiring(session: Session, tenant_ids: Collection[TenantId], now: datetime) -> dict[TenantId, int]:
    statement = "SELECT tenant_id, certificates FROM count_expiring_certificates(:wanted, :until, :most)"
    return dict(_read(session, statement, tenant_ids, until=now + EXPIRING_WITHIN, most=MAX_EXPIRING))


def _list_trial_ends(session: Session, tenant_ids: Collection[TenantId]) -> dict[TenantId, datetime]:
    return dict(_read(session, "SELECT tenant_id, ends_at FROM list_trial_ends(:wanted)", tenant_ids))


def _read(
    session: Session, statement: str, tenant_ids: Collection[TenantId], **parameters: object
) -> Sequence[Row[*tuple[Any, ...]]]:
    if not tenant_ids:
        return ()
    wanted = bindparam("wanted", list(tenant_ids), type_=ARRAY(Uuid()))
    return session.execute(sql_text(statement).bindparams(wanted), parameters).all()
