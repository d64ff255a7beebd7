"""What is wrong with the platform beside its cells, from when it is told until it is cleared: `platform_alarms`.

Cells tell of themselves in `cells.alarms`. All of this is in the platform's scope.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.models import PlatformAlarm


def raise_alarm(session: Session, *, code: str, detail: str, now: datetime) -> None:
    """As admit_worker. Told again, an alarm keeps its beginning."""
    row = {"code": code, "detail": detail, "since": now}
    session.execute(
        insert(PlatformAlarm)
        .values(row)
        .on_conflict_do_update(index_elements=[PlatformAlarm.code], set_={"detail": detail})
    )


def clear_alarm(session: Session, *, code: str) -> None:
    """As admit_worker."""
    session.execute(delete(PlatformAlarm).where(PlatformAlarm.code == code))


def list_alarms(session: Session) -> Sequence[PlatformAlarm]:
    return session.scalars(select(PlatformAlarm).order_by(PlatformAlarm.code)).all()
