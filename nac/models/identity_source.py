from typing import Any

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey


class IdentitySource(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A directory or provider that knows users."""

    __tablename__ = "identity_sources"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)

    name: Mapped[str]
    # ldap | oidc
    kind: Mapped[str]
    # Position in the query order. Sources at equal positions are ordered by name.
    position: Mapped[int] = mapped_column(default=100)
    enabled: Mapped[bool] = mapped_column(default=True)
    # In the format of nac.inventory.identity_sources.settings.
    settings: Mapped[dict[str, Any]]
    # Bind password or client secret.
    secret_sealed: Mapped[bytes | None]
