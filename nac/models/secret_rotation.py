from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, Reference, report_conflict, seal_with
from nac.kit.permissions import Effect, Permission

RotationState = Literal["running", "finished", "cancelled"]
RotationEndAction = Literal["finish", "wait"]
ROTATION_END_ACTIONS: tuple[RotationEndAction, ...] = get_args(RotationEndAction)


class SecretRotation(UuidKey, TenantOwned, CreatedAt, Base):
    """A rotation of the RADIUS secret of a tenant or NAS. While it runs, the old and the new secret work."""

    __tablename__ = "secret_rotations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "nas_id"], ["nases.tenant_id", "nases.id"], name="fk_secret_rotations_nas", ondelete="CASCADE"
        ),
        Index(
            "ix_secret_rotations_running",
            "tenant_id",
            unique=True,
            postgresql_where=text("state = 'running'::text AND nas_id IS NULL"),
            info=report_conflict("tenant", "The secret of this tenant already has a rotation in progress."),
        ),
        Index(
            "ix_secret_rotations_nas_running",
            "nas_id",
            unique=True,
            postgresql_where=text("state = 'running'::text"),
            info=report_conflict("nas", "The secret of this NAS already has a rotation in progress."),
        ),
        Index("ix_secret_rotations_tenant_id", "tenant_id", "created_at", "id"),
        Index("ix_secret_rotations_nas_id", "nas_id", postgresql_where=text("nas_id IS NOT NULL")),
        Index("ix_secret_rotations_ends_at", "ends_at", postgresql_where=text("state = 'running'::text")),
    )
    reference = Reference("rotation", "a rotation")
    tenant_file = FileContent(
        Permission.NAS_READ, (Permission.SECRET_ROTATE,), needs_key=True, reset={"opened_at": None}
    )
    effects = (Effect.TRUST, Effect.REJECTION)

    # Null for the tenant's secret.
    nas_id: Mapped[UUID | None]
    state: Mapped[str] = mapped_column(default="running", server_default="running")
    # The next secret; null after the end of the rotation.
    next_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("secret-rotation:{id}", is_radius_secret=True))
    # finish: at `ends_at`, the old secret stops working. wait: both secrets work until a person ends the rotation.
    at_end: Mapped[str] = mapped_column(default="finish", server_default="finish")
    ends_at: Mapped[datetime]
    # Time when radiusd first accepted both secrets.
    opened_at: Mapped[datetime | None]
    started_by: Mapped[str]
    ended_by: Mapped[str] = mapped_column(default="", server_default="")
    ended_at: Mapped[datetime | None]


class SecretSighting(TenantOwned, Base):
    """Times at which a NAS last used the old and the new secret of a rotation."""

    __tablename__ = "secret_sightings"
    __table_args__ = (Index("ix_secret_sightings_tenant_id", "tenant_id"),)
    tenant_file = FileExclusion("observed again on the network")

    rotation_id: Mapped[UUID] = mapped_column(ForeignKey("secret_rotations.id", ondelete="CASCADE"), primary_key=True)
    # Id of a registered NAS. For other NASes, NAS-Identifier|address.
    nas_key: Mapped[str] = mapped_column(primary_key=True)
    nas_id: Mapped[UUID | None]
    # Source address of the last request of the NAS.
    source: Mapped[str | None] = mapped_column(HostAddress())
    old_at: Mapped[datetime | None]
    new_at: Mapped[datetime | None]
    # Time of the first request with the new secret.
    new_since: Mapped[datetime | None]
