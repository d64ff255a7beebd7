from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned, UuidKey
from nac.kit.db.types import HostAddress


class Nas(UuidKey, TenantOwned, Base):
    """A switch, access point or controller that sends RADIUS requests."""

    __tablename__ = "nases"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "identifier"),
        UniqueConstraint("tenant_id", "address"),
        ForeignKeyConstraint(["tenant_id", "site_id"], ["sites.tenant_id", "sites.id"]),
    )

    site_id: Mapped[UUID] = mapped_column(index=True)
    name: Mapped[str]
    # NAS-Identifier (RFC 2865 5.32).
    identifier: Mapped[str | None]
    # Source address of its requests. Admit identifies a NAS behind NAT only by `identifier`.
    address: Mapped[str | None] = mapped_column(HostAddress())
    vendor: Mapped[str] = mapped_column(default="")
    secret_sealed: Mapped[bytes | None]
    require_message_authenticator: Mapped[bool] = mapped_column(default=True)
    # Whether packets from Admit cannot reach the NAS.
    behind_nat: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Whether the agent ignores its responses to CoA requests (RFC 5176) if they lack a Message-Authenticator.
    signs_coa_answers: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Kind of MAB password (nac.tenancy.nases.mab), and the text of a fixed password.
    mab_password: Mapped[str] = mapped_column(default="mac", server_default="mac")
    mab_password_sealed: Mapped[bytes | None]
    # Whether User-Name is the MAC address in requests without Calling-Station-Id and Service-Type.
    mab_by_name: Mapped[bool] = mapped_column(default=False, server_default=text("false"))


class NasSignature(TenantOwned, Base):
    """Whether a NAS sends Message-Authenticator although Admit does not require it from this NAS."""

    __tablename__ = "nas_signatures"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "nas_id"], ["nases.tenant_id", "nases.id"], ondelete="CASCADE"),
        Index("ix_nas_signatures_tenant_id", "tenant_id"),
    )

    nas_id: Mapped[UUID] = mapped_column(primary_key=True)
    last_unsigned_at: Mapped[datetime | None]
    # Time of the first signed request after the last unsigned one.
    signs_since: Mapped[datetime | None]
    last_signed_at: Mapped[datetime | None]
