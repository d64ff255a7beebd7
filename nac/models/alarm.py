from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base


class PlatformAlarm(Base):
    """What is wrong with the platform at this moment, beside its cells."""

    __tablename__ = "platform_alarms"

    code: Mapped[str] = mapped_column(primary_key=True)
    detail: Mapped[str]
    since: Mapped[datetime]
