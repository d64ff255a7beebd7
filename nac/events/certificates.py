"""Events of certificates and authorities: issued, revoked, expiring."""

from datetime import datetime
from typing import cast

import msgspec

from nac.events.document import VERSION, X509, Certificate, CertificateStatus, Event, EventPart, Subject
from nac.events.notes import id_of, said
from nac.events.parts import ECS, organization
from nac.events.texts import Tenant, line, moment, text
from nac.models import EventNote

_TYPES = {"issued": "creation", "renewed": "creation", "expiring": "info"}


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    # Hexadecimal; "" for an authority.
    serial: str
    name: str
    subject: str
    profile: str
    not_before: datetime
    not_after: datetime
    reason: str = ""
    days: int | None = None


def from_note(note: EventNote, *, tenant: Tenant) -> Event:
    row = said(note, _Said)
    within = f" within {row.days} days" if row.days is not None else ""
    return Event(
        timestamp=moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=id_of(note),
            kind="event",
            category=("configuration",),
            type=(_TYPES.get(note.what, "change"),),
            dataset="admit.certificate",
            action=f"certificate-{note.what}",
            reason=text(row.reason),
            created=moment(note.at),
        ),
        message=line(f"Certificate {row.serial or text(row.profile)} of {text(row.name)} {note.what}{within}"),
        organization=organization(tenant),
        x509=X509(
            serial_number=row.serial.upper(),
            subject=Subject(common_name=(text(row.name),), distinguished_name=text(row.subject)),
            not_before=moment(row.not_before),
            not_after=moment(row.not_after),
        ),
        admit=Certificate(
            version=VERSION,
            status=cast(CertificateStatus, note.what),
            profile=text(row.profile),
            revocation_reason=text(row.reason),
            days=row.days,
        ),
    )
