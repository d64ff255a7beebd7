from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UuidKey


class Policy(UuidKey, TenantOwned, Base):
    __tablename__ = "policies"
    __table_args__ = (UniqueConstraint("tenant_id", "slug"), UniqueConstraint("tenant_id", "id"))

    slug: Mapped[str]
    name: Mapped[str]
    # Number of the version in force; None denies everything.
    published_version: Mapped[int | None]


class PolicyVersion(UuidKey, TenantOwned, CreatedAt, Base):
    __tablename__ = "policy_versions"
    __table_args__ = (
        UniqueConstraint("policy_id", "number"),
        ForeignKeyConstraint(["tenant_id", "policy_id"], ["policies.tenant_id", "policies.id"], ondelete="CASCADE"),
    )

    policy_id: Mapped[UUID]
    number: Mapped[int]
    document: Mapped[dict[str, Any]]
    # draft | published | superseded
    status: Mapped[str] = mapped_column(default="draft")
    published_at: Mapped[datetime | None]
    comment: Mapped[str] = mapped_column(default="")
