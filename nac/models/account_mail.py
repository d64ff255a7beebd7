from sqlalchemy import BigInteger, ForeignKey, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt
from nac.kit.db.types import HostAddress
from nac.kit.ids import MspId, TenantId


class AccountMail(CreatedAt, Base):
    """A mail about an account, before the worker has looked up the person."""

    __tablename__ = "account_mails"
    __table_args__ = (
        Index("ix_account_mails_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_account_mails_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # forgotten | invitation
    kind: Mapped[str]
    # As the visitor entered it; an account with this address may not exist.
    email: Mapped[str]
    # Owner of the invited person's membership; the platform if both ids are null.
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    actor: Mapped[str]
    # Whether the person has signed in before with the browser that requested the mail.
    is_known: Mapped[bool] = mapped_column(server_default=text("false"))
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
