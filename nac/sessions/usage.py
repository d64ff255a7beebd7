"""Network usage by hour, device, user, NAS or site."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Select, Subquery, Text, cast, func, literal_column, select, union_all
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import USAGE_HOURS, Nas, RadiusSession, Site
from nac.sessions.repository import nas_self_name

UsageDimension = Literal["hour", "endpoint", "user", "nas", "site"]
USAGE_DIMENSIONS: tuple[UsageDimension, ...] = get_args(UsageDimension)
_SUMS = ("sessions", "seconds", "input_octets", "output_octets")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Usage of one hour, device, user, NAS or site. The list contains only rows with reported usage in the period."""

    # Start of the hour, MAC address (12 hexadecimal digits), user name, NAS (name or identifier), or site (slug).
    # "" if the value is missing.
    what: str
    sessions: int
    seconds: int
    input_octets: int
    output_octets: int


def list_usage(
    session: Session,
    *,
    tenant_id: TenantId,
    by: UsageDimension,
    since: datetime,
    until: datetime | None = None,
    limit: int = 1_000,
) -> Sequence[UsageRow]:
    """List usage by the dimension `by`. Hours are in order of time, other rows by usage, largest first.

    The period has whole hours and begins with the hour of `since`. Admit counts usage in the hour in which the NAS
    reported the usage. Includes the usage of live sessions in their latest reported hour.
    """
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if until is not None and until <= first:
        raise InvalidInput("The end of the period is before its start.", place="until", remedy="Set a later end.")
    used = union_all(
        _select_settled(tenant_id, first, until or utc_now()), _select_unsettled(tenant_id, first, until or utc_now())
    ).subquery()
    of_nas = [used.c.nas_id] if by == "nas" else []
    key = {
        "hour": used.c.hour,
        "endpoint": used.c.mac,
        "user": func.lower(used.c.identity),
        "nas": used.c.nas_key,
        "site": used.c.site_id,
    }[by].label("key")
    # Convert to numeric, because sums of 64-bit counters can overflow.
    sums = [func.sum(used.c[name]).label(name) for name in _SUMS[1:]]
    sessions = func.count(used.c.session_row.distinct()).label("sessions")
    # Group by stored keys before adding names, because finding names for hundreds of thousands of rows takes longer.
    added = select(key, *of_nas, sessions, *sums).group_by(literal_column("1"), *of_nas).subquery()
    rows = session.execute(_select_named(tenant_id, by, added).limit(limit))
    return [UsageRow(str(row[0] or ""), *map(int, row[1:])) for row in rows]


def _select_named(tenant_id: TenantId, by: UsageDimension, added: Subquery) -> Select[*tuple[Any, ...]]:
    key = added.c.key
    totals: list[ColumnElement[Any]] = [added.c[name] for name in _SUMS]
    if by in ("nas", "site"):
        # Several keys can have one name: a NAS can change its identifier, and all deleted sites have the name "".
        totals = [func.sum(each) for each in totals]
    what = {
        "hour": func.to_char(func.timezone("UTC", key), 'YYYY-MM-DD"T"HH24:00:00+00:00'),
        "endpoint": func.replace(cast(key, Text), ":", ""),
        "user": key,
        "nas": func.coalesce(Nas.name, nas_self_name(key)),
        "site": Site.slug,
    }[by]
    query = select(what, *totals).select_from(added)
    if by == "nas":
        query = query.outerjoin(Nas, (Nas.tenant_id == tenant_id) & (Nas.id == added.c.nas_id))
        # Group by id, because several NASes can have one name.
        query = query.group_by(literal_column("1"), Nas.id)
    if by == "site":
        query = query.outerjoin(Site, (Site.tenant_id == tenant_id) & (Site.id == key)).group_by(literal_column("1"))
    largest = () if by == "hour" else ((totals[2] + totals[3]).desc(),)
    return query.order_by(*largest, literal_column("1"))


def _select_settled(tenant_id: TenantId, since: datetime, until: datetime) -> Select[*tuple[Any, ...]]:
    use = USAGE_HOURS.c
    return select(
        use.hour,
        use.session_row,
        use.site_id,
        use.nas_id,
        use.nas_key,
        use.mac,
        use.identity,
        use.seconds,
        use.input_octets,
        use.output_octets,
    ).where(use.tenant_id == tenant_id, use.hour >= since, use.hour < until)


def _select_unsettled(tenant_id: TenantId, since: datetime, until: datetime) -> Select[*tuple[Any, ...]]:
    live = RadiusSession
    return select(
        live.usage_hour,
        live.id,
        live.site_id,
        live.nas_id,
        live.nas_key,
        live.mac,
        live.identity,
        func.coalesce(live.session_seconds, 0) - live.settled_seconds,
        func.coalesce(live.input_octets, 0) - live.settled_input,
        func.coalesce(live.output_octets, 0) - live.settled_output,
    ).where(live.tenant_id == tenant_id, live.stopped_at.is_(None), live.usage_hour >= since, live.usage_hour < until)
