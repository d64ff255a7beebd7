"""Pages of sessions. Live sessions come first. Ended sessions follow, ordered by their end, latest first.

The table `sessions` has live sessions and recently ended sessions. For some ended sessions, Admit only assumes the end
(radius/agent/sessions/maintenance.py). The table `session_history` has all earlier sessions. Each of these kinds of
sessions has its own index query for a page. The module then merges these pages.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Text,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY, INET
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from nac.kit.db import force_index_order
from nac.kit.ids import TenantId
from nac.models import EndedSession, Nas, RadiusSession, Site

Network = IPv4Network | IPv6Network
_Table = type[RadiusSession] | type[EndedSession]
# Ended sessions have three sources: two kinds in `sessions`, each with its own index, and `session_history`.
SessionPartition = Literal["live", "recent", "stale", "history"]
_ENDED: tuple[SessionPartition, ...] = ("recent", "stale", "history")
_PARTITION_CLAUSES: Mapping[SessionPartition, ColumnElement[bool]] = {
    "live": RadiusSession.stopped_at.is_(None),
    "recent": literal_column("NOT ('stale' = ANY (sessions.flags))"),
    "stale": literal_column("'stale' = ANY (sessions.flags)"),
}


class SessionRow(NamedTuple):
    """A session with the names of its NAS and site. The name of the NAS or site is None if the NAS or site is
    unknown or was deleted."""

    id: int
    tenant_id: TenantId
    nas_key: str
    session_id: str
    started_at: datetime
    site_id: UUID | None
    nas_id: UUID | None
    nas_address: str | None
    nas_port: str
    # MAC address, 12 hexadecimal digits.
    mac: str | None
    identity: str
    framed_ip: str | None
    framed_ipv6: str | None
    # IPv6 prefix, such as 2001:db8::/64.
    framed_prefix: str | None
    delegated_prefix: str | None
    class_: str
    cui: str
    updated_at: datetime
    stopped_at: datetime | None
    session_seconds: int | None
    input_octets: int | None
    output_octets: int | None
    terminate_cause: str
    flags: Sequence[str]
    nas: str | None
    site: str | None


_COLUMNS = SessionRow._fields[: SessionRow._fields.index("nas")]
# The driver returns these columns in their final form. Conversion by their types takes a third of the time of a page.
_RAW_COLUMNS = frozenset(("nas_address", "framed_ip", "framed_ipv6", "framed_prefix", "delegated_prefix", "flags"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Filter of sessions. All values of the filter must match; "" and None match every session."""

    # Id of the session (`sessions.id`).
    row: int | None = None
    # MAC address, 12 lower-case hexadecimal digits.
    mac: str = ""
    # User-Name. Case is ignored.
    user: str = ""
    # Address of the device, or a network that contains the address. A network also matches overlapping IPv6 prefixes.
    address: Network | None = None
    # Slug of the site.
    site: str = ""
    nas_identifier: str = ""
    nas_id: UUID | None = None
    # Identifier of an unregistered NAS. See `nas_self_name`.
    nas_said: str = ""
    # Acct-Session-Id that the NAS sent.
    session_id: str = ""
    # Chargeable-User-Identity (RFC 4372).
    cui: str = ""
    # Sessions that were live at any time from `since` to before `until`.
    since: datetime | None = None
    until: datetime | None = None


class SessionKey(NamedTuple):
    """Position in the list of sessions after which the next page begins.

    `moment` is the start of a live session, or the end of an ended session.
    """

    part: Literal["live", "ended"]
    moment: datetime
    id: int


def build_key(found: SessionRow) -> SessionKey:
    return (
        SessionKey("live", found.started_at, found.id)
        if found.stopped_at is None
        else SessionKey("ended", found.stopped_at, found.id)
    )


def get(session: Session, tenant_id: TenantId, row: int) -> SessionRow | None:
    for table in (RadiusSession, EndedSession):
        query = _select_columns(table).where(table.tenant_id == tenant_id, table.id == row)
        if found := session.connection().execute(query).one_or_none():
            return SessionRow._make(found)
    return None


def list_live(
    session: Session,
    tenant_id: TenantId,
    wanted: SessionFilter,
    *,
    after: SessionKey | None,
    limit: int,
    oldest_first: bool,
) -> Sequence[SessionRow]:
    """List live sessions, ordered by start."""
    with _plan_by_order(session, wanted):
        return list(_list_page(session, "live", tenant_id, wanted, after, limit, oldest_first))


def list_ended(
    session: Session,
    tenant_id: TenantId,
    wanted: SessionFilter,
    *,
    after: SessionKey | None,
    limit: int,
    oldest_first: bool,
) -> Sequence[SessionRow]:
    """List ended sessions, ordered by end."""
    with _plan_by_order(session, wanted):
        arguments = (tenant_id, wanted, after, limit, oldest_first)
        sessions = [each for place in _ENDED for each in _list_page(session, place, *arguments)]
    return sorted(sessions, key=lambda each: build_key(each)[1:], reverse=not oldest_first)[:limit]


def _plan_by_order(session: Session, wanted: SessionFilter) -> AbstractContextManager[None]:
    """Force the index order if the filter has a site, because the planner would read and sort all sessions of a large
    site."""
    return force_index_order(session) if wanted.site else nullcontext()


def _list_page(
    session: Session,
    place: SessionPartition,
    tenant_id: TenantId,
    wanted: SessionFilter,
    after: SessionKey | None,
    limit: int,
    oldest_first: bool,
) -> Iterator[SessionRow]:
    parameters: dict[str, Any] = {
        "row": wanted.row,
        "mac": wanted.mac or None,
        "user": wanted.user or None,
        "site": wanted.site or None,
        "nas_identifier": wanted.nas_identifier or None,
        "nas_id": wanted.nas_id,
        "nas_said": wanted.nas_said or None,
        "session_id": wanted.session_id or None,
        "cui": wanted.cui or None,
        "since": wanted.since if place != "live" else None,
        "until": wanted.until,
    }
    if wanted.address is not None:
        parameters |= _network_params(wanted.address)
    if after is not None:
        parameters |= {"moment": after.moment, "after_id": after.id}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    statement = _build_statement(place, frozenset(parameters), oldest_first)
    rows = session.connection().execute(statement, parameters | {"tenant_id": tenant_id, "page": limit})
    return map(SessionRow._make, rows.all())


@lru_cache(maxsize=1_024)
def _build_statement(place: SessionPartition, given: frozenset[str], oldest_first: bool) -> Select[Any]:
    """Build the statement for these filters. Cached, because building a statement takes longer than running it."""
    table: _Table = EndedSession if place == "history" else RadiusSession
    moment = table.started_at if place == "live" else table.stopped_at
    query = (
        _select_columns(table)
        .where(table.tenant_id == bindparam("tenant_id"), *_conditions(table, given))
        .order_by(*((moment, table.id) if oldest_first else (moment.desc(), table.id.desc())))
        .limit(bindparam("page"))
    )
    if place in _PARTITION_CLAUSES:
        query = query.where(_PARTITION_CLAUSES[place])
    if place != "live":
        query = query.where(table.stopped_at.is_not(None))
    if "since" in given:
        query = query.where(table.stopped_at >= bindparam("since"))
    if "moment" in given:
        # PostgreSQL uses only the condition on the time to exclude partitions.
        key, after = tuple_(moment, table.id), tuple_(bindparam("moment"), bindparam("after_id"))
        query = query.where(
            moment >= bindparam("moment") if oldest_first else moment <= bindparam("moment"),
            key > after if oldest_first else key < after,
        )
    return query


def _select_columns(table: _Table) -> Select[Any]:
    """Select the columns, with the names of NAS and site.

    One query for sessions and names is faster than separate queries; it runs thousands of times per second.
    """
    columns = (
        type_coerce(getattr(table, name), NullType()) if name in _RAW_COLUMNS else getattr(table, name)
        for name in _COLUMNS
    )
    return (
        select(*columns, Nas.name, Site.slug)
        .outerjoin(Nas, (Nas.tenant_id == table.tenant_id) & (Nas.id == table.nas_id))
        .outerjoin(Site, (Site.tenant_id == table.tenant_id) & (Site.id == table.site_id))
    )


def _conditions(table: _Table, given: frozenset[str]) -> Iterator[ColumnElement[bool]]:
    if "row" in given:
        yield table.id == bindparam("row")
    for name in ("mac", "nas_id", "session_id", "cui"):
        if name in given:
            yield getattr(table, name) == bindparam(name)
    for name in {"session_id", "cui"} & given:
        # The partial indexes exclude empty values, so the planner can use them only with this condition.
        yield getattr(table, name) != literal_column("''")
    if "site" in given:
        yield table.site_id == _id_subquery(Site, Site.slug == bindparam("site"))
    if "nas_identifier" in given:
        yield table.nas_id == _id_subquery(Nas, Nas.identifier == bindparam("nas_identifier"))
    if "nas_said" in given:
        yield nas_self_name(table.nas_key) == bindparam("nas_said")
    if "user" in given:
        yield table.identity_key == func.lower(bindparam("user"))
    if "until" in given:
        yield table.started_at < bindparam("until")
    if "v4" in given or "v4_first" in given:
        yield _is_within(table.framed_ip, "v4", given)
    if "v6" in given or "v6_first" in given:
        yield _has_ipv6(table, given)


def nas_self_name(nas_key: Any) -> ColumnElement[str]:  # noqa: ANN401 -- a mapped column
    """Return the NAS-Identifier of the NAS.

    Without a NAS-Identifier, returns the NAS-IP-Address or, if missing, the source address
    (radius/agent/accounting_parser.py).
    """
    return func.coalesce(func.nullif(func.split_part(nas_key, "|", 1), ""), func.split_part(nas_key, "|", 2))


def _id_subquery(table: type[Nas] | type[Site], named: ColumnElement[bool]) -> ScalarSelect[UUID]:
    return select(table.id).where(table.tenant_id == bindparam("tenant_id"), named).correlate(None).scalar_subquery()


def _network_params(wanted: Network) -> dict[str, Any]:
    name = f"v{wanted.version}"
    if wanted.num_addresses == 1:
        parameters: dict[str, Any] = {name: str(wanted.network_address)}
    else:
        parameters = {f"{name}_first": str(wanted), f"{name}_last": str(wanted.broadcast_address)}
    if wanted.version == 6:
        parameters["v6_around"] = [str(wanted.supernet(new_prefix=length)) for length in range(wanted.prefixlen + 1)]
    return parameters


def _has_ipv6(table: _Table, given: frozenset[str]) -> ColumnElement[bool]:
    """Return the condition that an IPv6 address or prefix of a session matches the network.

    The network of a single address is a /128. Under row-level security, an index works only with plain comparisons.
    """
    around = cast(bindparam("v6_around", type_=ARRAY(Text())), ARRAY(INET()))
    return or_(
        _is_within(table.framed_ipv6, "v6", given),
        *(
            condition
            for prefix in (table.framed_prefix, table.delegated_prefix)
            for condition in (prefix == any_(around), _is_within(prefix, "v6", given))
        ),
    )


def _is_within(column: Any, name: str, given: frozenset[str]) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    """Return the condition that a column is in the network.

    The condition compares with the first and last value of the network. PostgreSQL sorts a network before its
    addresses.
    """
    within: ColumnElement[bool] = (
        column == bindparam(name)
        if name in given
        else column.between(bindparam(f"{name}_first"), bindparam(f"{name}_last"))
    )
    return within
