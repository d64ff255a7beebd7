from typing import Literal
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt
from nac.kit.ids import MspId

MspStatus = Literal["active", "suspended"]


class Msp(CreatedAt, Base):
    """A managed service provider, which runs tenants for its customers."""

    __tablename__ = "msps"

    id: Mapped[MspId] = mapped_column(primary_key=True, default=uuid4)
    slug: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    status: Mapped[str] = mapped_column(default="active", server_default=text("'active'"))
    # Days in which a deleted tenant can be restored.
    deletion_days: Mapped[int] = mapped_column(default=30, server_default=text("30"))
