from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ARRAY, ForeignKeyConstraint, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UuidKey
from nac.kit.db.declarations import FileExclusion, Reference, describe_reference, report_taken
from nac.kit.permissions import Effect

EnrolmentKind = Literal["est", "scep", "link"]


class EnrolmentSecret(UuidKey, TenantOwned, CreatedAt, Base):
    """A secret that authorizes a limited number of enrolments for certificates."""

    __tablename__ = "enrolment_secrets"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint(
            "tenant_id", "name", info=report_taken("name", "An enrolment secret with this name already exists.")
        ),
        ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"],
            ["endpoints.tenant_id", "endpoints.id"],
            ondelete="CASCADE",
            info=describe_reference("endpoint_mac", "an endpoint"),
        ),
        ForeignKeyConstraint(
            ["tenant_id", "user_id"],
            ["users.tenant_id", "users.id"],
            ondelete="CASCADE",
            info=describe_reference("user_name", "a user"),
        ),
    )
    reference = Reference("secret", "an enrolment secret")
    tenant_file = FileExclusion("redeemable once, where it was created")
    effects = (Effect.CREDENTIALS,)

    # Public part of the secret, by which Admit finds the row. Unique across tenants.
    public_id: Mapped[str] = mapped_column(unique=True)
    # est | scep | link
    kind: Mapped[str]
    # Name that the administrator chose. Within the tenant, it identifies the secret like the public id.
    name: Mapped[str | None]
    # Hash from nac.certificates.enrolment.service.
    secret_sha256: Mapped[bytes]
    profile: Mapped[str]
    # If `common_name` is null and `sans` is empty, the device chooses its names.
    common_name: Mapped[str | None]
    # Alternative names in the notation of pki.names.parse_san.
    sans: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    endpoint_id: Mapped[UUID | None]
    user_id: Mapped[UUID | None]
    # Owner of the device as free text.
    owner: Mapped[str] = mapped_column(server_default="")
    # Wi-Fi network in an Apple profile; "" for none.
    ssid: Mapped[str] = mapped_column(server_default="")
    most_uses: Mapped[int] = mapped_column(server_default="1")
    uses: Mapped[int] = mapped_column(server_default="0")
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    created_by: Mapped[str]
