"""Sites and their NASes."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint, literal_column, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, HostAddress, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, Reference, report_taken, seal_with
from nac.kit.permissions import Effect, Permission


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
        (Permission.SITE_MANAGE, Permission.POLICY_PUBLISH),
    )
    effects = (Effect.FACTS, Effect.RULES, Effect.TENANTS)

    slug: Mapped[str]
    name: Mapped[str]
    # IANA name of the time zone. Times of day in a policy are in this zone.
    time_zone: Mapped[str] = mapped_column(default="UTC")
    policy_id: Mapped[UUID | None]
    # Outcome to use at this site instead of the policy's fallback; null to use the policy's fallback.
    fallback: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # Monitor mode: Admit only logs the verdicts of the policy, and admits devices with the results of the fallback.
    monitor: Mapped[bool] = mapped_column(default=False)


class Nas(UuidKey, TenantOwned, Base):
    """A switch, access point or controller that sends RADIUS requests."""

    __tablename__ = "nases"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint(
            "tenant_id", "identifier", info=report_taken("identifier", "Another NAS already has this identifier.")
        ),
        UniqueConstraint("tenant_id", "address", info=report_taken("address", "Another NAS already has this address.")),
        ForeignKeyConstraint(["tenant_id", "site_id"], ["sites.tenant_id", "sites.id"]),
        *(
            Index(
                f"ix_nases_tenant_id_lower_{name}",
                "tenant_id",
                literal_column(f"lower({name})").label("lower"),
                postgresql_ops={"lower": "text_pattern_ops"},
            )
            for name in ("name", "identifier")
        ),
    )
    reference = Reference("nas", "a NAS")
    plural = "NASes"
    tenant_file = FileContent(Permission.NAS_READ, (Permission.NAS_MANAGE,))
    effects = (Effect.FACTS, Effect.TRUST)

    site_id: Mapped[UUID] = mapped_column(index=True)
    name: Mapped[str]
    # NAS-Identifier (RFC 2865 5.32).
    identifier: Mapped[str | None]
    # Source address of the requests of the NAS. Admit identifies a NAS behind NAT only by `identifier`.
    address: Mapped[str | None] = mapped_column(HostAddress())
    vendor: Mapped[str] = mapped_column(default="")
    secret_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("nas:{id}", is_radius_secret=True))
    require_message_authenticator: Mapped[bool] = mapped_column(default=True)
    # Whether packets from Admit cannot reach the NAS.
    behind_nat: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Whether the agent ignores CoA responses (RFC 5176) of the NAS that lack a Message-Authenticator.
    signs_coa_answers: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Kind of MAB password (nac.tenancy.nases.mab), and the text of a fixed password.
    mab_password: Mapped[str] = mapped_column(default="mac", server_default="mac")
    mab_password_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("nas-mab-password:{id}"))
    # Whether User-Name is the MAC address in requests without Calling-Station-Id and Service-Type.
    mab_by_name: Mapped[bool] = mapped_column(default=False, server_default=text("false"))


class NasSignature(TenantOwned, Base):
    """Whether a NAS sends Message-Authenticator, if Admit does not require the attribute from this NAS."""

    __tablename__ = "nas_signatures"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "nas_id"], ["nases.tenant_id", "nases.id"], name="fk_nas_signatures_nas", ondelete="CASCADE"
        ),
        Index("ix_nas_signatures_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("observed again on the network")

    nas_id: Mapped[UUID] = mapped_column(primary_key=True)
    last_unsigned_at: Mapped[datetime | None]
    # Time of the first signed request after the last unsigned request.
    signs_since: Mapped[datetime | None]
    last_signed_at: Mapped[datetime | None]


class NasSighting(TenantOwned, Base):
    """Time of the last request of a NAS. Only the agent writes the rows, at most once a minute for each NAS."""

    __tablename__ = "nas_sightings"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "nas_id"], ["nases.tenant_id", "nases.id"], name="fk_nas_sightings_nas", ondelete="CASCADE"
        ),
        Index("ix_nas_sightings_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("observed again on the network")

    nas_id: Mapped[UUID] = mapped_column(primary_key=True)
    last_seen_at: Mapped[datetime]
