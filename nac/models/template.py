from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileExclusion, Reference, report_conflict, report_taken
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Effect


class Template(UuidKey, CreatedAt, UpdatedAt, Base):
    """A configuration that several tenants of an MSP share."""

    __tablename__ = "templates"
    __table_args__ = (
        UniqueConstraint("msp_id", "slug", info=report_taken("slug", "A template with this slug already exists.")),
        UniqueConstraint("msp_id", "id"),
    )
    reference = Reference("template", "a template")
    effects = (Effect.DRAFT, Effect.RULES, Effect.REJECTION)

    msp_id: Mapped[MspId] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    slug: Mapped[str]
    name: Mapped[str]
    # Number of the newest version; 0 if the template has no version.
    newest: Mapped[int] = mapped_column(Integer(), server_default=text("0"))


class TemplateVersion(CreatedAt, Base):
    __tablename__ = "template_versions"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("template", "Another person has just saved a version.")),
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"], ondelete="CASCADE"),
    )
    effects = (Effect.DRAFT, Effect.RULES, Effect.REJECTION)

    template_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(Integer(), primary_key=True)
    msp_id: Mapped[MspId]
    # In the format of nac.onboarding.templates.document.
    document: Mapped[dict[str, Any]]
    comment: Mapped[str] = mapped_column(server_default="")
    created_by: Mapped[str]


class TemplateTenant(Base):
    """A tenant that follows a template. A tenant can follow one template."""

    __tablename__ = "template_tenants"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("tenant", "This tenant already follows a template.")),
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"]),
        Index("ix_template_tenants_template_id", "template_id"),
    )
    plural = "tenants that follow it"
    tenant_file = FileExclusion("belongs to the MSP")
    effects = (Effect.DRAFT, Effect.RULES, Effect.REJECTION)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    msp_id: Mapped[MspId]
    template_id: Mapped[UUID]
    # Version that was last applied to the tenant; null before the first roll-out.
    version: Mapped[int | None]
    applied_at: Mapped[datetime | None]
    # Parts that the tenant configures differently. Roll-outs do not change them, and drift does not include them.
    overrides: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))


class Rollout(UuidKey, CreatedAt, Base):
    """A roll-out of a template version to the tenants that follow the template."""

    __tablename__ = "rollouts"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"], ondelete="CASCADE"),
        UniqueConstraint("msp_id", "id"),
        Index(
            "uq_rollouts_template_id",
            "template_id",
            unique=True,
            postgresql_where=text("state IN ('running', 'rolling-back')"),
            info=report_conflict("template", "A roll-out of this template is already in progress."),
        ),
        Index("ix_rollouts_template_id", "template_id", "created_at", "id"),
        Index("ix_rollouts_job_id", "job_id"),
    )
    reference = Reference("rollout", "a roll-out")
    effects = (Effect.DRAFT, Effect.RULES, Effect.REJECTION)

    msp_id: Mapped[MspId]
    template_id: Mapped[UUID]
    version: Mapped[int]
    # running | stopped | done | rolling-back | rolled-back
    state: Mapped[str] = mapped_column(server_default="running")
    # Watch time of each stage in minutes.
    stages: Mapped[list[Any]]
    stage: Mapped[int] = mapped_column(Integer(), server_default=text("0"))
    stage_applied_at: Mapped[datetime | None]
    # Maximum change of the share of rejected devices before the roll-out stops.
    most_moved: Mapped[float] = mapped_column(Double())
    # Reason why the roll-out stopped.
    detail: Mapped[str] = mapped_column(server_default="")
    requested_by: Mapped[str]
    ended_at: Mapped[datetime | None]
    # Job that runs the roll-out. A resumed roll-out has a new job. A trigger stops the roll-out if its job ends.
    job_id: Mapped[UUID | None]
    # Whether Admit rolls back automatically if the share of rejected devices changes too much.
    back_when_moved: Mapped[bool] = mapped_column(server_default=text("false"))


class RolloutTenant(Base):
    __tablename__ = "rollout_tenants"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "rollout_id"], ["rollouts.msp_id", "rollouts.id"], ondelete="CASCADE"),
        Index("ix_rollout_tenants_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("belongs to the MSP")
    effects = (Effect.DRAFT, Effect.RULES, Effect.REJECTION)

    rollout_id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    msp_id: Mapped[MspId]
    stage: Mapped[int]
    # waiting | applied | failed | rolled-back | left-out
    state: Mapped[str] = mapped_column(server_default="waiting")
    detail: Mapped[str] = mapped_column(server_default="")
    applied_at: Mapped[datetime | None]
    # Values of the changed parts before the roll-out, and the previous version.
    before: Mapped[dict[str, Any] | None]
    before_version: Mapped[int | None]
    # Number of rejected devices and of all active devices, before and after the update.
    rejected_before: Mapped[int | None]
    devices_before: Mapped[int | None]
    rejected_since: Mapped[int | None]
    devices_since: Mapped[int | None]
