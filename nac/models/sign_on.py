from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Index, PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileExclusion, Reference, report_conflict
from nac.kit.ids import MspId, TenantId


class SignOn(UuidKey, CreatedAt, UpdatedAt, Base):
    """The OpenID Connect provider for single sign-on of an MSP or a tenant."""

    __tablename__ = "sign_ons"
    __table_args__ = (
        UniqueConstraint(
            "msp_id",
            "tenant_id",
            postgresql_nulls_not_distinct=True,
            info=report_conflict("issuer", "Another person has just set up single sign-on."),
        ),
    )
    reference = Reference("sign_on", "a single sign-on")
    tenant_file = FileExclusion("people do not belong to a tenant")

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # In the format of nac.accounts.sign_ons.settings.
    settings: Mapped[dict[str, Any]]
    secret_sealed: Mapped[bytes]


class SignOnLink(CreatedAt, Base):
    """The person linked to a provider's subject."""

    __tablename__ = "sign_on_links"
    __table_args__ = (
        PrimaryKeyConstraint(
            info=report_conflict("email", "This account of the provider is already linked to a person.")
        ),
        UniqueConstraint(
            "sign_on_id", "person_id", info=report_conflict("email", "This person already signs in by the provider.")
        ),
        Index("ix_sign_on_links_person_id", "person_id"),
    )

    sign_on_id: Mapped[UUID] = mapped_column(ForeignKey("sign_ons.id", ondelete="CASCADE"), primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
