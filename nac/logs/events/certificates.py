"""Events of certificates and authorities: issued, revoked, expiring."""

from datetime import datetime
from typing import cast

import msgspec

from nac.logs.events.document import VERSION, X509, Certificate, CertificateStatus, Event, EventPart, Subject
from nac.logs.events.event_values import EventTenant, clip_line, clip_text, format_moment
from nac.logs.events.parts import ECS, event_id, organization, parse_note
from nac.models import EventNote

_TYPES = {"issued": "creation", "renewed": "creation", "expiring": "info"}


class _CertificateNote(msgspec.Struct, frozen=True, kw_only=True):
    # Serial number in hexadecimal; "" for an authority.
    serial: str
    name: str
    subject: str
    profile: str
    not_before: datetime
    not_after: datetime
    reason: str = ""
    days: int | None = None


def from_note(note: EventNote, *, tenant: EventTenant) -> Event:
    row = parse_note(note, _CertificateNote)
    within = f" within {row.days} days" if row.days is not None else ""
    return Event(
        timestamp=format_moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=event_id(note),
            kind="event",
            category=("configuration",),
            type=(_TYPES.get(note.what, "change"),),
            dataset="admit.certificate",
            action=f"certificate-{note.what}",
            reason=clip_text(row.reason),
            created=format_moment(note.at),
        ),
        message=clip_line(
            f"Certificate {row.serial or clip_text(row.profile)} of {clip_text(row.name)} {note.what}{within}"
        ),
        organization=organization(tenant),
        x509=X509(
            serial_number=row.serial.upper(),
            subject=Subject(common_name=(clip_text(row.name),), distinguished_name=clip_text(row.subject)),
            not_before=format_moment(row.not_before),
            not_after=format_moment(row.not_after),
        ),
        admit=Certificate(
            version=VERSION,
            status=cast(CertificateStatus, note.what),
            profile=clip_text(row.profile),
            revocation_reason=clip_text(row.reason),
            days=row.days,
        ),
    )
