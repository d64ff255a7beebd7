from typing import Literal
from uuid import uuid4

from sqlalchemy import UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt
from nac.kit.db.declarations import Reference, report_taken
from nac.kit.ids import MspId

MspStatus = Literal["active", "suspended"]


class Msp(CreatedAt, Base):
    """A managed service provider: runs tenants for its customers."""

    __tablename__ = "msps"
    __table_args__ = (UniqueConstraint("slug", info=report_taken("slug", "An MSP with this slug already exists.")),)
    reference = Reference("msp", "an MSP")

    id: Mapped[MspId] = mapped_column(primary_key=True, default=uuid4)
    slug: Mapped[str]
    name: Mapped[str]
    status: Mapped[str] = mapped_column(default="active", server_default=text("'active'"))
    # Days in which a deleted tenant can be restored.
    deletion_days: Mapped[int] = mapped_column(default=30, server_default=text("30"))
