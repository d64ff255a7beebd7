"""Events of alarms of a tenant: raised and cleared, by its cell or the worker."""

from datetime import datetime
from typing import Literal, cast

import msgspec

from nac.events.document import VERSION, Alarm, Event, EventPart
from nac.events.notes import id_of, said
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, line, moment, text
from nac.models import EventNote


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    detail: str
    since: datetime
    # "" for alarms of the worker.
    cell: str = ""


def from_note(note: EventNote, *, tenant: Tenant) -> Event:
    """Return the event (raised or cleared). `admit.code`, `admit.cell` and `admit.since` identify the alarm."""
    alarm = said(note, _Said)
    cleared = note.what == "cleared"
    return Event(
        timestamp=moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=id_of(note),
            kind="alert",
            category=("host",),
            type=("end" if cleared else "start",),
            dataset="admit.alarm",
            action=f"alarm-{note.what}",
            code=text(alarm.code),
            reason=text(alarm.detail),
            created=moment(note.at),
        ),
        message=line(f"{'Cleared: ' if cleared else ''}{alarm.code}: {alarm.detail}"),
        organization=organization(tenant),
        admit=Alarm(
            version=VERSION,
            code=text(alarm.code),
            state=cast(Literal["raised", "cleared"], note.what),
            cell=text(alarm.cell),
            since=moment(alarm.since),
        ),
    )
