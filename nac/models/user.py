from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey


class User(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A user who logs in to the network with a name and password."""

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_users_tenant_id_created_at_name", "tenant_id", "created_at", "name"),
    )

    # Case-folded name, which is also the key in the replica.
    name: Mapped[str]
    disabled: Mapped[bool] = mapped_column(default=False)
    # In the format of `nac.cellformat.replica.records.UserRecord.password_hash`.
    password_hash: Mapped[str]
    # Encrypted password. Stored only for CHAP, which needs the plain password (RFC 1994).
    password_sealed: Mapped[bytes | None]
    # Encrypted NT hash. Stored only for MS-CHAP (RFC 2759 8.3). Encrypted like a password, because it suffices for a
    # login.
    nt_hash_sealed: Mapped[bytes | None]
    valid_until: Mapped[datetime | None]


class UserGroup(UuidKey, TenantOwned, Base):
    __tablename__ = "user_groups"
    __table_args__ = (UniqueConstraint("tenant_id", "name"), UniqueConstraint("tenant_id", "id"))

    # Policies and replica records contain the name, so Admit renames only groups that no policy uses.
    name: Mapped[str]


class UserGroupMember(TenantOwned, Base):
    __tablename__ = "user_group_members"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(
            ["tenant_id", "group_id"], ["user_groups.tenant_id", "user_groups.id"], ondelete="CASCADE"
        ),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)
