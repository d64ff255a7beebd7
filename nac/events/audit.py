"""Changes that somebody made, as the audit log has them."""

import json
from collections.abc import Mapping
from typing import Any

from nac.events.document import MAX_VALUES, VERSION, Audit, Event, EventPart, User
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, key, line, moment, text
from nac.models import AuditEntry


def from_log(row: AuditEntry, *, tenant: Tenant) -> Event:
    return Event(
        timestamp=moment(row.at),
        ecs=ECS,
        event=EventPart(
            id=f"audit:{key(row.at, row.id)}",
            kind="event",
            category=("configuration",),
            type=("change",),
            dataset="admit.audit",
            action=text(row.action),
        ),
        message=line(f"{row.actor}: {row.action} {row.target}"),
        organization=organization(tenant),
        user=User(name=text(row.actor.partition(":")[2] or row.actor)),
        admit=Audit(
            version=VERSION,
            actor=text(row.actor),
            target=text(row.target),
            before=_members(row.before),
            after=_members(row.after),
        ),
    )


def _members(values: Mapping[str, Any] | None) -> dict[str, str]:
    found = list((values or {}).items())[:MAX_VALUES]
    return {text(name): text(json.dumps(value, ensure_ascii=False)) for name, value in found}
