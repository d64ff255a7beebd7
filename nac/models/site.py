from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, Reference, report_taken
from nac.kit.permissions import Permission


class Site(UuidKey, TenantOwned, Base):
    __tablename__ = "sites"
    __table_args__ = (
        UniqueConstraint("tenant_id", "slug", info=report_taken("slug", "A site with this slug already exists.")),
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(["tenant_id", "policy_id"], ["policies.tenant_id", "policies.id"]),
        *(Index(f"ix_sites_tenant_id_{name}", "tenant_id", name, "slug") for name in ("name", "time_zone")),
    )
    reference = Reference("site", "a site")
    # A site's policy, fallback and monitor mode decide which rules apply.
    tenant_file = FileContent(
        Permission.SITE_READ,
        (
            Permission.SITE_MANAGE,
            Permission.POLICY_PUBLISH,
        ),
    )

    slug: Mapped[str]
    name: Mapped[str]
    # IANA name; times of day in a policy are in this zone.
    time_zone: Mapped[str] = mapped_column(default="UTC")
    policy_id: Mapped[UUID | None]
    # Outcome that overrides the policy's fallback.
    fallback: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # Verdicts of the policy are only logged, and the fallback admits.
    monitor: Mapped[bool] = mapped_column(default=False)
