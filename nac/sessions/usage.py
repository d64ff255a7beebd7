"""What was used: by the hour, device, user, NAS or site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Select, Subquery, Text, and_, cast, func, select, union_all
from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.models import USAGE_HOURS, Nas, RadiusSession, Site
from nac.sessions.repository import nas_said

Dimension = Literal["hour", "endpoint", "user", "nas", "site"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_Keys = Mapping[str, ColumnElement[Any]]
_SUMS = ("seconds", "input_octets", "output_octets")


@dataclass(frozen=True, slots=True)
class Use:
    """Of `what` there is at least one session with a report in the time asked for."""

    # Of an hour its beginning, of a device 12 hex digits, of a NAS its name or, where it is not registered, what it
    # says of itself, of a site its slug; "" for none.
    what: str
    sessions: int
    seconds: int
    input_octets: int
    output_octets: int


@dataclass(frozen=True, slots=True)
class _Period:
    tenant_id: TenantId
    since: datetime
    until: datetime


def list_usage(
    session: Session,
    *,
    tenant_id: TenantId,
    by: Dimension,
    since: datetime,
    until: datetime | None = None,
    limit: int = 1_000,
) -> Sequence[Use]:
    """The largest first, hours in their order; whole hours, the first of them that of `since`.

    Usage is of the hour in which the NAS reported it. What live sessions reported in their last hour is in it.
    """
    first = since.replace(minute=0, second=0, microsecond=0)
    if until is not None and until <= first:
        raise InvalidInput("The period ends before it begins.", place="until", remedy="Give a later time.")
    used = _used(by, _Period(tenant_id, first, until or utc_now()))
    what = {
        "hour": lambda: func.to_char(func.timezone("UTC", used.c.hour), 'YYYY-MM-DD"T"HH24:00:00+00:00'),
        "endpoint": lambda: func.replace(cast(used.c.mac, Text), ":", ""),
        "user": lambda: used.c.name,
        "nas": lambda: func.coalesce(Nas.name, nas_said(used.c.nas_key)),
        "site": lambda: Site.slug,
    }[by]().label("what")
    sums = [func.sum(used.c[name]) for name in ("sessions", *_SUMS)]
    query = (
        select(what, *sums)
        .select_from(used)
        # Several NASes may have one name.
        .group_by(what, *((Nas.id,) if by == "nas" else ()))
        .order_by(*(() if by == "hour" else ((sums[2] + sums[3]).desc(),)), what)
        .limit(limit)
    )
    if by == "nas":
        query = query.outerjoin(Nas, (Nas.tenant_id == tenant_id) & (Nas.id == used.c.nas_id))
    if by == "site":
        query = query.outerjoin(Site, (Site.tenant_id == tenant_id) & (Site.id == used.c.site_id))
    return [Use(str(row[0] or ""), *map(int, row[1:])) for row in session.execute(query)]


def _used(by: Dimension, period: _Period) -> Subquery:
    """Sums by what tells rows apart as they are: there are hundreds of thousands, and naming each, or sorting them to
    count its sessions once, takes longer than reading them.

    A live session is one row. Of what is settled a session may have several, and may be live as well: it counts once.
    """
    settled, live = USAGE_HOURS.c, _live(period)
    settled_keys = _keys(by, settled, hour=settled.hour, name=func.lower(settled.identity))
    live_keys = _keys(by, RadiusSession, hour=RadiusSession.usage_hour, name=RadiusSession.identity_key)
    of_session = (
        select(
            *_labelled(settled_keys),
            settled.session_row,
            *(func.sum(settled[name]).label(name) for name in _SUMS),
        )
        .where(settled.tenant_id == period.tenant_id, settled.hour >= period.since, settled.hour < period.until)
        .group_by(*settled_keys.values(), settled.session_row)
        .subquery()
    )
    keys = [of_session.c[name] for name in settled_keys]
    same = [ours.is_not_distinct_from(theirs) for ours, theirs in zip(keys, live_keys.values(), strict=True)]
    is_live = and_(RadiusSession.id == of_session.c.session_row, *live, *same)
    ended = (
        select(
            *keys,
            func.count().filter(RadiusSession.id.is_(None)).label("sessions"),
            *(func.sum(of_session.c[name]).label(name) for name in _SUMS),
        )
        .select_from(of_session.outerjoin(RadiusSession, is_live))
        .group_by(*keys)
    )
    return union_all(ended, _of_live(live_keys, live)).subquery()


def _keys(
    by: Dimension,
    row: Any,  # noqa: ANN401 -- a model, or columns
    *,
    hour: ColumnElement[Any],
    name: ColumnElement[Any],
) -> _Keys:
    return {
        "hour": {"hour": hour},
        "endpoint": {"mac": row.mac},
        "user": {"name": name},
        "nas": {"nas_id": row.nas_id, "nas_key": row.nas_key},
        "site": {"site_id": row.site_id},
    }[by]


def _labelled(keys: _Keys) -> list[ColumnElement[Any]]:
    return [key.label(name) for name, key in keys.items()]


def _live(period: _Period) -> Sequence[ColumnElement[bool]]:
    row = RadiusSession
    hour = row.usage_hour
    return row.tenant_id == period.tenant_id, row.stopped_at.is_(None), hour >= period.since, hour < period.until


def _of_live(keys: _Keys, live: Sequence[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    """What they have reported in their last hour."""
    row = RadiusSession
    since_then = (
        func.coalesce(row.session_seconds, 0) - row.settled_seconds,
        func.coalesce(row.input_octets, 0) - row.settled_input,
        func.coalesce(row.output_octets, 0) - row.settled_output,
    )
    sums = (func.sum(each).label(name) for name, each in zip(_SUMS, since_then, strict=True))
    return select(*_labelled(keys), func.count().label("sessions"), *sums).where(*live).group_by(*keys.values())
