"""Accounting records as they came, and the sessions that are made of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from ipaddress import IPv6Network
from typing import Any, Literal, NamedTuple
from uuid import UUID

from nac.decisions.recorded import microseconds_of
from nac.events.document import VERSION, Accounting, Event, EventPart, Session, SessionPart
from nac.events.parts import ECS, client, named, observer, organization, present, server, user
from nac.events.texts import Tenant, address, count, key, line, moment, optional_moment, text, texts
from nac.mac import display_mac
from nac.models import AccountingLog, EndedSession, RadiusSession

# What a record does: action, and the types of the Elastic Common Schema.
_STATUSES = {
    "Start": ("session-started", "start"),
    "Interim-Update": ("session-reported", "info"),
    "Stop": ("session-ended", "end"),
    "Accounting-On": ("nas-started", "info"),
    "Accounting-Off": ("nas-stopped", "info"),
}
_OTHER = ("accounting-received", "info")


class Record(NamedTuple):
    """An Accounting-Request; None or "" where the NAS does not say."""

    # Epoch microseconds.
    at: int
    site_id: UUID | str | None
    nas_id: UUID | str | None
    nas_address: str | None
    status_type: str
    session_id: str
    # 12 hex digits.
    mac: str | None
    identity: str
    session_seconds: int | None
    input_octets: int | None
    output_octets: int | None
    terminate_cause: str
    # As radiusd prints them: (name, value), in order.
    attributes: Iterable[tuple[str, str]]


def from_log(row: AccountingLog, *, tenant: Tenant) -> Event:
    return from_record(
        Record(
            microseconds_of(row.at),
            row.site_id,
            row.nas_id,
            row.nas_address,
            row.status_type,
            row.session_id,
            row.mac,
            row.identity,
            row.session_seconds,
            row.input_octets,
            row.output_octets,
            row.terminate_cause,
            row.attributes,
        ),
        number=row.id,
        tenant=tenant,
    )


def from_record(record: Record, *, number: int, tenant: Tenant) -> Event:
    """`number` is the id that its row in `accounting_log` is given."""
    action, kind = _STATUSES.get(record.status_type, _OTHER)
    said: Mapping[str, Any] = dict(record.attributes)
    name = str(said.get("NAS-Identifier", ""))
    return Event(
        timestamp=moment(record.at),
        ecs=ECS,
        event=EventPart(
            id=f"accounting:{key(record.at, number)}",
            kind="event",
            category=("session", "network"),
            type=(kind,),
            dataset="admit.accounting",
            action=action,
        ),
        message=_message(record.mac, record.identity, name or address(record.nas_address), action),
        organization=organization(tenant),
        user=user(record.identity, record.mac),
        client=client(record.mac, ip=said.get("Framed-IP-Address"), octets=record.input_octets),
        server=server(record.output_octets),
        observer=observer(name, record.nas_address, said.get("NAS-Port-Id") or said.get("NAS-Port") or ""),
        admit=Accounting(
            version=VERSION,
            site=named(record.site_id),
            nas=named(record.nas_id),
            status=text(record.status_type),
            session=present(
                SessionPart(
                    id=text(record.session_id),
                    seconds=count(record.session_seconds),
                    terminate_cause=text(record.terminate_cause),
                )
            ),
            ip6=address(said.get("Framed-IPv6-Address")),
            delegated_prefix=_prefix(said.get("Delegated-IPv6-Prefix", "")),
        ),
    )


def session_event(
    row: RadiusSession | EndedSession, happened: Literal["started", "updated", "ended"], *, tenant: Tenant
) -> Event:
    """Of a live session, or of one that has ended: what its row says now."""
    at: datetime | None = {"started": row.started_at, "updated": row.updated_at, "ended": row.stopped_at}[happened]
    if at is None:
        raise ValueError("the session has not ended")
    session = key(row.started_at, row.id)
    action = f"session-{happened}"
    name = row.nas_key.partition("|")[0]
    return Event(
        timestamp=moment(at),
        ecs=ECS,
        event=EventPart(
            # A session that was taken for ended may go on, and end again.
            id=f"session:{session}:{happened}" + ("" if happened == "started" else f":{microseconds_of(at)}"),
            kind="event",
            category=("session", "network"),
            type=({"started": "start", "updated": "info", "ended": "end"}[happened],),
            dataset="admit.session",
            action=action,
        ),
        message=_message(row.mac, row.identity, name or address(row.nas_address), action),
        organization=organization(tenant),
        user=user(row.identity, row.mac),
        client=client(row.mac, ip=row.framed_ip, octets=row.input_octets),
        server=server(row.output_octets),
        observer=observer(name, row.nas_address, row.nas_port),
        admit=Session(
            version=VERSION,
            site=named(row.site_id),
            nas=named(row.nas_id),
            session=SessionPart(
                id=text(row.session_id),
                row=row.id,
                seconds=count(row.session_seconds),
                started=moment(row.started_at),
                ended=optional_moment(row.stopped_at),
                terminate_cause=text(row.terminate_cause),
                flags=texts(row.flags),
            ),
            ip6=address(row.framed_ipv6),
            delegated_prefix=_prefix(row.delegated_prefix or ""),
        ),
    )


def _message(mac: str | None, identity: str, nas: str | None, action: str) -> str:
    who = [display_mac(mac)] if mac else []
    if identity and identity != mac:
        who.append(text(identity))
    what = action.replace("-", " ")
    return line(f"{' '.join(who) or 'A device'}: {what} at {text(nas or '') or 'an unknown NAS'}")


def _prefix(value: str) -> str:
    try:
        return str(IPv6Network(value, strict=False)) if "/" in value else ""
    except ValueError:
        return ""
