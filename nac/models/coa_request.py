from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned
from nac.db.types import HostAddress, Mac


class CoaRequest(TenantOwned, CreatedAt, Base):
    """A session that must end because what admitted it is no longer good; the row comes before the sending."""

    __tablename__ = "coa_requests"
    __table_args__ = (
        Index("ix_coa_requests_tenant_id_id", "tenant_id", "id"),
        Index(
            "uq_coa_requests_queued",
            "tenant_id",
            "session_row",
            unique=True,
            postgresql_where=text("state = 'queued'"),
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # `sessions.id`; the others are what a Disconnect-Request names it by (RFC 5176 3).
    session_row: Mapped[int] = mapped_column(BigInteger())
    session_id: Mapped[str]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    mac: Mapped[str | None] = mapped_column(Mac())
    # certificate-revoked | certificate-suspended | ca-revoked
    reason: Mapped[str]
    # Hex digits.
    certificate_serial: Mapped[str] = mapped_column(default="")
    # queued | done | failed
    state: Mapped[str] = mapped_column(default="queued")
