from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ARRAY, ForeignKeyConstraint, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UuidKey

EnrolmentKind = Literal["est", "scep", "link"]


class EnrolmentSecret(UuidKey, TenantOwned, CreatedAt, Base):
    """What a device or person shows, once or a few times, in order to be given a certificate."""

    __tablename__ = "enrolment_secrets"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        UniqueConstraint("tenant_id", "name"),
        ForeignKeyConstraint(["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="CASCADE"),
    )

    # By which it is found; no secret, and of all tenants the only one.
    public_id: Mapped[str] = mapped_column(unique=True)
    # est | scep | link
    kind: Mapped[str]
    # A name that the administrator gave; as good as the public id within the tenant.
    name: Mapped[str | None]
    # As nac.enrolment.tokens makes it.
    secret_sha256: Mapped[bytes]
    profile: Mapped[str]
    # None with no `sans`: the asker proposes names.
    common_name: Mapped[str | None]
    # As pki.names.parse_san reads them.
    sans: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    endpoint_id: Mapped[UUID | None]
    user_id: Mapped[UUID | None]
    # Whose the device is, in words.
    owner: Mapped[str] = mapped_column(server_default="")
    # The Wi-Fi network that an Apple profile sets up; "" for none.
    ssid: Mapped[str] = mapped_column(server_default="")
    most_uses: Mapped[int] = mapped_column(server_default="1")
    uses: Mapped[int] = mapped_column(server_default="0")
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    created_by: Mapped[str]
