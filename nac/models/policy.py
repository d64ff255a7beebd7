from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, Purge, Reference, report_conflict, report_taken
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission


class Policy(UuidKey, TenantOwned, Base):
    __tablename__ = "policies"
    __table_args__ = (
        UniqueConstraint("tenant_id", "slug", info=report_taken("slug", "A policy with this slug already exists.")),
        UniqueConstraint("tenant_id", "id"),
    )
    reference = Reference("policy", "a policy")
    tenant_file = FileContent(
        Permission.POLICY_READ,
        (Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH),
    )
    effects = (Effect.RULES, Effect.DRAFT, Effect.TENANTS)

    slug: Mapped[str]
    name: Mapped[str]
    # Number of the published version; if null, the policy denies all requests.
    published_version: Mapped[int | None]


class PolicyVersion(UuidKey, TenantOwned, CreatedAt, Base):
    __tablename__ = "policy_versions"
    __table_args__ = (
        UniqueConstraint(
            "policy_id", "number", info=report_conflict("policy", "Another person has just saved a version.")
        ),
        ForeignKeyConstraint(["tenant_id", "policy_id"], ["policies.tenant_id", "policies.id"], ondelete="CASCADE"),
    )
    tenant_file = FileContent(
        Permission.POLICY_READ,
        (Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH),
    )
    effects = (Effect.RULES, Effect.DRAFT, Effect.TENANTS)

    policy_id: Mapped[UUID]
    number: Mapped[int]
    document: Mapped[dict[str, Any]]
    # draft | published | superseded
    status: Mapped[str] = mapped_column(default="draft")
    published_at: Mapped[datetime | None]
    comment: Mapped[str] = mapped_column(default="")
    # JSON text of the document as the person sent it; null if Admit received an object.
    written: Mapped[str | None]
    # Result of the replay before publication, and who acknowledged it (`nac.policies.publish_gate`); null without a
    # replay.
    replayed: Mapped[dict[str, Any] | None]


class PolicyHits(Base):
    """Number of decisions by a rule of a policy version on a UTC day. Only the agent writes the rows."""

    __tablename__ = "policy_hits"
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("observed again on the network")
    effects = ()

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    policy_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    # Id of the rule; "" for the fallback.
    rule_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    hits: Mapped[int] = mapped_column(BigInteger())
    last_at: Mapped[datetime]
