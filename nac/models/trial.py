from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ARRAY, ForeignKey, Index, Integer, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, UuidKey
from nac.kit.db.declarations import FileExclusion
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect

SignUpState = Literal["requested", "known", "provisioning", "done", "failed"]
TrialState = Literal["running", "ended", "converted"]


class SignUp(UuidKey, CreatedAt, Base):
    __tablename__ = "sign_ups"
    __table_args__ = (
        Index("ix_sign_ups_created_at", "created_at"),
        Index("ix_sign_ups_provisioning", "due_at", postgresql_where=text("state = 'provisioning'")),
    )

    email: Mapped[str]
    domain: Mapped[str]
    organisation: Mapped[str]
    # Hash of the secret in the mailed link; null if Admit sent no link.
    token_sha256: Mapped[bytes | None] = mapped_column(unique=True)
    # Source address of the request. For IPv6, its /64 network.
    from_address: Mapped[str | None] = mapped_column(HostAddress())
    expires_at: Mapped[datetime]
    # known: the address already has an account, and Admit mailed a notice instead of a link.
    state: Mapped[str] = mapped_column(server_default="requested")
    confirmed_at: Mapped[datetime | None]
    # Slug of the tenant that the sign-up creates, and first member of the tenant.
    slug: Mapped[str] = mapped_column(server_default="")
    person_id: Mapped[UUID | None]
    # Time from which a worker can create the tenant. While a worker does so: time when another worker can take over.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))


class Trial(CreatedAt, Base):
    """A current or former trial tenant."""

    __tablename__ = "trials"
    __table_args__ = (Index("ix_trials_open", "ends_at", postgresql_where=text("state <> 'converted'")),)
    tenant_file = FileExclusion("belongs to the original installation")
    effects = (Effect.PLATFORM,)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    sign_up_id: Mapped[UUID] = mapped_column(unique=True)
    organisation: Mapped[str]
    # Recipient of mails about the trial.
    email: Mapped[str]
    state: Mapped[str] = mapped_column(server_default="running")
    ends_at: Mapped[datetime]
    # Time when Admit deletes the data, unless the trial was converted.
    purged_at: Mapped[datetime]
    most_endpoints: Mapped[int]
    most_authentications: Mapped[int]
    # Days before the end for which Admit has sent reminders.
    reminded: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    # Time since when the trial exceeds its limit of authentications.
    over_since: Mapped[datetime | None]
