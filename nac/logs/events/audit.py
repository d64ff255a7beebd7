"""Events of the audit log."""

import json
from collections.abc import Mapping
from typing import Any

from nac.cellformat.packet_values import is_recordable
from nac.logs.events.document import MAX_VALUES, VERSION, Audit, Event, EventPart, User
from nac.logs.events.event_values import EventTenant, clip_line, clip_text, format_moment, row_key
from nac.logs.events.parts import ECS, organization
from nac.models import AuditEntry


def from_log(row: AuditEntry, *, tenant: EventTenant) -> Event:
    return Event(
        timestamp=format_moment(row.at),
        ecs=ECS,
        event=EventPart(
            id=f"audit:{row_key(row.at, row.id)}",
            kind="event",
            category=("configuration",),
            type=("change",),
            dataset="admit.audit",
            action=clip_text(row.action),
        ),
        message=clip_line(f"{row.actor}: {row.action} {row.target}"),
        organization=organization(tenant),
        user=User(name=clip_text(row.actor.partition(":")[2] or row.actor)),
        admit=Audit(
            version=VERSION,
            actor=clip_text(row.actor),
            target=clip_text(row.target),
            before=_members(row.before),
            after=_members(row.after),
        ),
    )


def _members(values: Mapping[str, Any] | None) -> dict[str, str]:
    members = [item for item in (values or {}).items() if is_recordable(item[0])][:MAX_VALUES]
    return {
        clip_text(name): clip_text(json.dumps(_without_credentials(value), ensure_ascii=False))
        for name, value in members
    }


def _without_credentials(value: object) -> object:
    """Remove credentials from the values of an entry, as a safeguard: entries must never contain credentials."""
    match value:
        case dict():
            return {name: _without_credentials(each) for name, each in value.items() if is_recordable(name)}
        case list():
            return [_without_credentials(each) for each in value]
        case _:
            return value
