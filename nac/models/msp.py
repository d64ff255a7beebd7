from uuid import uuid4

from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt
from nac.ids import MspId


class Msp(CreatedAt, Base):
    """A managed service provider: runs tenants for its customers."""

    __tablename__ = "msps"

    id: Mapped[MspId] = mapped_column(primary_key=True, default=uuid4)
    slug: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
