from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned, UuidKey


class Site(UuidKey, TenantOwned, Base):
    __tablename__ = "sites"
    __table_args__ = (
        UniqueConstraint("tenant_id", "slug"),
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(["tenant_id", "policy_id"], ["policies.tenant_id", "policies.id"]),
        *(Index(f"ix_sites_tenant_id_{name}", "tenant_id", name, "slug") for name in ("name", "time_zone")),
    )

    slug: Mapped[str]
    name: Mapped[str]
    # IANA name of the time zone. Times of day in a policy are in this zone.
    time_zone: Mapped[str] = mapped_column(default="UTC")
    policy_id: Mapped[UUID | None]
    # Result that overrides the fallback of the policy; null to use the policy's.
    fallback: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # Monitor mode: Admit only logs verdicts of the policy, and admits devices with the fallback.
    monitor: Mapped[bool] = mapped_column(default=False)
