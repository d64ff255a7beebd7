"""Users of networks, and identity sources that contain further users."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, PrimaryKeyConstraint, UniqueConstraint, literal_column
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileContent, Purge, Reference, keep_hash, report_conflict, report_taken, seal_with
from nac.kit.permissions import Effect, Permission


class User(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A user who logs in to the network with a name and password."""

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", info=report_taken("name", "A user with this name already exists.")),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_users_tenant_id_created_at_name", "tenant_id", "created_at", "name"),
        Index(
            "ix_users_tenant_id_lower_name",
            "tenant_id",
            literal_column("lower(name)").label("lower_name"),
            postgresql_ops={"lower_name": "text_pattern_ops"},
        ),
    )
    reference = Reference("user", "a user")
    purge = Purge.BATCHES
    tenant_file = FileContent(Permission.USER_READ, (Permission.USER_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    # Case-folded name, which is also the key in the replica.
    name: Mapped[str]
    disabled: Mapped[bool] = mapped_column(default=False)
    # In the format of `nac.cellformat.replica.records.UserRecord.password_hash`.
    password_hash: Mapped[str] = mapped_column(info=keep_hash(without_key=""))
    # Encrypted password. Stored only for CHAP, which needs the plain password (RFC 1994).
    password_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("user:{id}"))
    # NT hash, stored only for MS-CHAP (RFC 2759 8.3), and encrypted, because it suffices for a login.
    nt_hash_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("user-nt-hash:{id}"))
    valid_until: Mapped[datetime | None]


class UserGroup(UuidKey, TenantOwned, Base):
    __tablename__ = "user_groups"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", info=report_taken("name", "A group with this name already exists.")),
        UniqueConstraint("tenant_id", "id"),
    )
    reference = Reference("groups", "a group")
    tenant_file = FileContent(Permission.USER_READ, (Permission.USER_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    # Policies and replica records contain the name, so Admit renames only groups that no policy uses.
    name: Mapped[str]


class UserGroupMember(TenantOwned, Base):
    __tablename__ = "user_group_members"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("groups", "The user is already in this group.")),
        ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(
            ["tenant_id", "group_id"], ["user_groups.tenant_id", "user_groups.id"], ondelete="CASCADE"
        ),
    )
    purge = Purge.BATCHES
    tenant_file = FileContent(Permission.USER_READ, (Permission.USER_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)


class IdentitySource(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A directory or provider that contains users."""

    __tablename__ = "identity_sources"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id", "name", info=report_taken("name", "An identity source with this name already exists.")
        ),
    )
    tenant_file = FileContent(Permission.SOURCE_READ, (Permission.SOURCE_MANAGE,))
    effects = (Effect.TRUST, Effect.REJECTION)

    name: Mapped[str]
    # ldap | oidc
    kind: Mapped[str]
    # Position in the query order. Sources at equal positions are ordered by name.
    position: Mapped[int] = mapped_column(default=100)
    enabled: Mapped[bool] = mapped_column(default=True)
    # In the format of nac.inventory.identity_sources.settings.
    settings: Mapped[dict[str, Any]]
    # Bind password or client secret.
    secret_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("identity-source:{id}"))
