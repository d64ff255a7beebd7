"""Alarms of the platform (table `platform_alarms`). Alarms of a single cell are in the table `cells` instead.

All functions need PlatformScope.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.models import PlatformAlarm


def raise_alarm(session: Session, *, code: str, detail: str, now: datetime) -> None:
    """Raise an alarm. If an alarm with this code exists, only its detail text changes, and its start time remains.

    Needs database role admit_worker.
    """
    row = {"code": code, "detail": detail, "since": now}
    session.execute(
        insert(PlatformAlarm)
        .values(row)
        .on_conflict_do_update(index_elements=[PlatformAlarm.code], set_={"detail": detail})
    )


def clear_alarm(session: Session, *, code: str) -> None:
    """Delete the alarm with this code, if it exists. Needs database role admit_worker."""
    session.execute(delete(PlatformAlarm).where(PlatformAlarm.code == code))


def list_alarms(session: Session) -> Sequence[PlatformAlarm]:
    return session.scalars(select(PlatformAlarm).order_by(PlatformAlarm.code)).all()
