"""What is wrong, from when it is told until it no longer is: `cells.alarms`, and what the worker finds."""

from collections.abc import Mapping
from datetime import datetime

from nac.decisions.recorded import microseconds_of
from nac.events.document import VERSION, Alarm, Event, EventPart
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, line, moment, text


def from_alarm(
    alarm: Mapping[str, str], *, cell: str, tenant: Tenant | None = None, cleared_at: datetime | None = None
) -> Event:
    """`alarm` as in `cells.alarms`: code, detail and since (ISO 8601). `cell` is "" for those of the platform."""
    since = datetime.fromisoformat(alarm["since"])
    id_ = f"alarm:{cell}:{alarm['code']}:{microseconds_of(since)}"
    cleared = cleared_at is not None
    return Event(
        timestamp=moment(cleared_at or since),
        ecs=ECS,
        event=EventPart(
            id=text(f"{id_}:cleared" if cleared else id_),
            kind="alert",
            category=("host",),
            type=("end" if cleared else "start",),
            dataset="admit.alarm",
            action="alarm-cleared" if cleared else "alarm-raised",
            code=text(alarm["code"]),
            reason=text(alarm["detail"]),
        ),
        message=line(f"{'Cleared: ' if cleared else ''}{alarm['code']}: {alarm['detail']}"),
        organization=tenant and organization(tenant),
        admit=Alarm(
            version=VERSION,
            code=text(alarm["code"]),
            state="cleared" if cleared else "raised",
            cell=text(cell),
            since=moment(since),
        ),
    )
