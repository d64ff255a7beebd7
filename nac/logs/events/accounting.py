"""Events of Accounting-Requests."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from nac.kit.mac import display_mac
from nac.logs.events.document import VERSION, Accounting, Event, EventPart, SessionPart
from nac.logs.events.event_values import (
    EventTenant,
    clip_count,
    clip_line,
    clip_text,
    format_address,
    format_moment,
    format_prefix,
    row_key,
)
from nac.logs.events.parts import (
    ECS,
    build_named,
    client,
    is_user_name,
    none_if_empty,
    observer,
    organization,
    server,
    user,
)
from nac.models import AccountingLog
from nac.sessions.decisions.recorded_requests import to_microseconds

# Event action and event types (Elastic Common Schema), by Acct-Status-Type.
_ACTIONS_BY_STATUS = {
    "Start": ("session-started", "start"),
    "Interim-Update": ("session-reported", "info"),
    "Stop": ("session-ended", "end"),
    "Accounting-On": ("nas-started", "info"),
    "Accounting-Off": ("nas-stopped", "info"),
}
_OTHER_ACTION = ("accounting-received", "info")


class AccountingRequest(NamedTuple):
    """An Accounting-Request. None and "" mean that the request lacks the value."""

    # Time in epoch microseconds.
    at: int
    site_id: UUID | str | None
    nas_id: UUID | str | None
    nas_address: str | None
    status_type: str
    session_id: str
    # MAC address of the device as 12 hexadecimal digits.
    mac: str | None
    identity: str
    session_seconds: int | None
    input_octets: int | None
    output_octets: int | None
    terminate_cause: str
    # All attributes in their order: (name, value) as radiusd prints them.
    attributes: Iterable[tuple[str, str]]


def from_log(row: AccountingLog, *, tenant: EventTenant) -> Event:
    return from_record(
        AccountingRequest(
            to_microseconds(row.at),
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


def from_record(record: AccountingRequest, *, number: int, tenant: EventTenant) -> Event:
    """Return the event of an accounting record. `number` is the id of the record's row in `accounting_log`."""
    action, kind = _ACTIONS_BY_STATUS.get(record.status_type, _OTHER_ACTION)
    attributes: Mapping[str, Any] = dict(record.attributes)
    name = str(attributes.get("NAS-Identifier", ""))
    return Event(
        timestamp=format_moment(record.at),
        ecs=ECS,
        event=EventPart(
            id=f"accounting:{row_key(record.at, number)}",
            kind="event",
            category=("session", "network"),
            type=(kind,),
            dataset="admit.accounting",
            action=action,
        ),
        message=describe_session(record.mac, record.identity, name or format_address(record.nas_address), action),
        organization=organization(tenant),
        user=user(record.identity, record.mac),
        client=client(record.mac, ip=attributes.get("Framed-IP-Address"), octets=record.input_octets),
        server=server(record.output_octets),
        observer=observer(name, record.nas_address, attributes.get("NAS-Port-Id") or attributes.get("NAS-Port") or ""),
        admit=Accounting(
            version=VERSION,
            site=build_named(record.site_id),
            nas=build_named(record.nas_id),
            status=clip_text(record.status_type),
            session=none_if_empty(
                SessionPart(
                    id=clip_text(record.session_id),
                    seconds=clip_count(record.session_seconds),
                    terminate_cause=clip_text(record.terminate_cause),
                )
            ),
            ip6=format_address(attributes.get("Framed-IPv6-Address")),
            delegated_prefix=format_prefix(attributes.get("Delegated-IPv6-Prefix", "")),
        ),
    )


def describe_session(mac: str | None, identity: str, nas: str | None, action: str) -> str:
    names = [display_mac(mac)] if mac else []
    if is_user_name(identity, mac):
        names.append(clip_text(identity))
    what = action.replace("-", " ")
    return clip_line(f"{' '.join(names) or 'A device'}: {what} at {clip_text(nas or '') or 'an unknown NAS'}")
