"""Events of Accounting-Requests."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from nac.decisions.recorded import microseconds_of
from nac.events.document import VERSION, Accounting, Event, EventPart, SessionPart
from nac.events.parts import ECS, client, is_user, named, observer, organization, present, server, user
from nac.events.texts import Tenant, address, count, key, line, moment, prefix, text
from nac.mac import display_mac
from nac.models import AccountingLog

# Action and Elastic Common Schema types by Acct-Status-Type.
_STATUSES = {
    "Start": ("session-started", "start"),
    "Interim-Update": ("session-reported", "info"),
    "Stop": ("session-ended", "end"),
    "Accounting-On": ("nas-started", "info"),
    "Accounting-Off": ("nas-stopped", "info"),
}
_OTHER = ("accounting-received", "info")


class Record(NamedTuple):
    """An Accounting-Request; None or "" for missing values."""

    # Epoch microseconds.
    at: int
    site_id: UUID | str | None
    nas_id: UUID | str | None
    nas_address: str | None
    status_type: str
    session_id: str
    # 12 hexadecimal digits.
    mac: str | None
    identity: str
    session_seconds: int | None
    input_octets: int | None
    output_octets: int | None
    terminate_cause: str
    # As printed by radiusd: (name, value), in order.
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
    """Return the event; `number` is the id of its row in `accounting_log`."""
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
        message=sentence(record.mac, record.identity, name or address(record.nas_address), action),
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
            delegated_prefix=prefix(said.get("Delegated-IPv6-Prefix", "")),
        ),
    )


def sentence(mac: str | None, identity: str, nas: str | None, action: str) -> str:
    who = [display_mac(mac)] if mac else []
    if is_user(identity, mac):
        who.append(text(identity))
    what = action.replace("-", " ")
    return line(f"{' '.join(who) or 'A device'}: {what} at {text(nas or '') or 'an unknown NAS'}")
