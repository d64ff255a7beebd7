from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base


class PlatformAlarm(Base):
    """A current problem of the platform. Problems of cells are in `cells.alarms`."""

    __tablename__ = "platform_alarms"

    code: Mapped[str] = mapped_column(primary_key=True)
    detail: Mapped[str]
    since: Mapped[datetime]
