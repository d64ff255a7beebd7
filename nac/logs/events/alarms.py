"""Events of a tenant's alarms, which its cell or the worker raises and clears."""

from datetime import datetime
from typing import Literal, cast

import msgspec

from nac.logs.events.document import VERSION, Alarm, Event, EventPart
from nac.logs.events.event_values import EventTenant, clip_line, clip_text, format_moment
from nac.logs.events.parts import ECS, event_id, organization, parse_note
from nac.models import EventNote


class _AlarmNote(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    detail: str
    since: datetime
    # Name of the cell; "" for alarms of the worker.
    cell: str = ""


def from_note(note: EventNote, *, tenant: EventTenant) -> Event:
    """Return the event of a raised or cleared alarm, which `admit.code`, `admit.cell` and `admit.since` identify."""
    alarm = parse_note(note, _AlarmNote)
    cleared = note.what == "cleared"
    return Event(
        timestamp=format_moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=event_id(note),
            kind="alert",
            category=("host",),
            type=("end" if cleared else "start",),
            dataset="admit.alarm",
            action=f"alarm-{note.what}",
            code=clip_text(alarm.code),
            reason=clip_text(alarm.detail),
            created=format_moment(note.at),
        ),
        message=clip_line(f"{'Cleared: ' if cleared else ''}{alarm.code}: {alarm.detail}"),
        organization=organization(tenant),
        admit=Alarm(
            version=VERSION,
            code=clip_text(alarm.code),
            state=cast(Literal["raised", "cleared"], note.what),
            cell=clip_text(alarm.cell),
            since=format_moment(alarm.since),
        ),
    )
