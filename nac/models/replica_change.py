from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Identity, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base
from nac.kit.db.types import Xid8
from nac.kit.ids import CellId


class ReplicaChange(Base):
    """A change of a row that replicas contain. Triggers write changes, and agents apply them to their replicas."""

    __tablename__ = "replica_changes"

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    xact: Mapped[str] = mapped_column(Xid8(), server_default=text("pg_current_xact_id()"), index=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    tenant_id: Mapped[UUID | None]
    # Set only for slots, because slot numbers are unique only within a cell.
    cell_id: Mapped[CellId | None]
    noun: Mapped[str]
    key: Mapped[str]
