from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Double, ForeignKey, ForeignKeyConstraint, Index, Integer, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, UpdatedAt, UuidKey
from nac.ids import MspId, TenantId


class Template(UuidKey, CreatedAt, UpdatedAt, Base):
    """What tenants of an MSP have in common."""

    __tablename__ = "templates"
    __table_args__ = (UniqueConstraint("msp_id", "slug"), UniqueConstraint("msp_id", "id"))

    msp_id: Mapped[MspId] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    slug: Mapped[str]
    name: Mapped[str]
    # Of the newest version; 0 where there is none.
    newest: Mapped[int] = mapped_column(Integer(), server_default=text("0"))


class TemplateVersion(CreatedAt, Base):
    __tablename__ = "template_versions"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"], ondelete="CASCADE"),
    )

    template_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(Integer(), primary_key=True)
    msp_id: Mapped[MspId]
    # As nac.templates.document reads it.
    document: Mapped[dict[str, Any]]
    comment: Mapped[str] = mapped_column(server_default="")
    created_by: Mapped[str]


class TemplateTenant(Base):
    """A tenant follows one template at most."""

    __tablename__ = "template_tenants"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"]),
        Index("ix_template_tenants_template_id", "template_id"),
    )

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    msp_id: Mapped[MspId]
    template_id: Mapped[UUID]
    # That was brought to it last; None: none yet.
    version: Mapped[int | None]
    applied_at: Mapped[datetime | None]
    # Parts that are the tenant's own: no roll-out changes them, and they are no drift.
    overrides: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))


class Rollout(UuidKey, CreatedAt, Base):
    """A version on its way to the tenants of its template."""

    __tablename__ = "rollouts"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "template_id"], ["templates.msp_id", "templates.id"], ondelete="CASCADE"),
        UniqueConstraint("msp_id", "id"),
        Index(
            "uq_rollouts_template_id",
            "template_id",
            unique=True,
            postgresql_where=text("state IN ('running', 'rolling-back')"),
        ),
        Index("ix_rollouts_template_id", "template_id", "created_at", "id"),
        Index("ix_rollouts_job_id", "job_id"),
    )

    msp_id: Mapped[MspId]
    template_id: Mapped[UUID]
    version: Mapped[int]
    # running | stopped | done | rolling-back | rolled-back
    state: Mapped[str] = mapped_column(server_default="running")
    # Minutes that each stage is watched for, before the next.
    stages: Mapped[list[Any]]
    stage: Mapped[int] = mapped_column(Integer(), server_default=text("0"))
    stage_applied_at: Mapped[datetime | None]
    # A share of devices rejected may move by so much.
    most_moved: Mapped[float] = mapped_column(Double())
    # Why it stopped.
    detail: Mapped[str] = mapped_column(server_default="")
    asked_by: Mapped[str]
    ended_at: Mapped[datetime | None]
    # That brings it on; another from each time on that it is gone on with. A trigger stops it where the job ends.
    job_id: Mapped[UUID | None]
    # Goes back by itself where devices fare otherwise.
    back_when_moved: Mapped[bool] = mapped_column(server_default=text("false"))


class RolloutTenant(Base):
    __tablename__ = "rollout_tenants"
    __table_args__ = (
        ForeignKeyConstraint(["msp_id", "rollout_id"], ["rollouts.msp_id", "rollouts.id"], ondelete="CASCADE"),
        Index("ix_rollout_tenants_tenant_id", "tenant_id"),
    )

    rollout_id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    msp_id: Mapped[MspId]
    stage: Mapped[int]
    # waiting | applied | failed | rolled-back | left-out
    state: Mapped[str] = mapped_column(server_default="waiting")
    detail: Mapped[str] = mapped_column(server_default="")
    applied_at: Mapped[datetime | None]
    # What it had in the parts that were changed, and which version it followed.
    before: Mapped[dict[str, Any] | None]
    before_version: Mapped[int | None]
    # Devices that were rejected and all that were heard, in the time before and since.
    rejected_before: Mapped[int | None]
    devices_before: Mapped[int | None]
    rejected_since: Mapped[int | None]
    devices_since: Mapped[int | None]
