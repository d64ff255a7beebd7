from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UuidKey
from nac.db.types import HostAddress, Mac
from nac.ids import CellId


class Pool(UuidKey, TenantOwned, CreatedAt, Base):
    """Addresses (or prefixes) that devices are given with their Access-Accept."""

    __tablename__ = "pools"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "site_id",
            "name",
            name="uq_pools_tenant_id_site_id",
            postgresql_nulls_not_distinct=True,
        ),
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "site_id"], ["sites.tenant_id", "sites.id"], name="fk_pools_tenant_id_sites"
        ),
    )

    # None: of the whole tenant. A site's own pool comes before the tenant's of the same name.
    site_id: Mapped[UUID | None]
    name: Mapped[str]
    # nac.pools.extent.PoolKind
    kind: Mapped[str]
    ranges: Mapped[list[str]] = mapped_column(ARRAY(Text()))
    exclusions: Mapped[list[str]] = mapped_column(ARRAY(Text()), server_default=text("'{}'"))
    # Of what a device gets; 32 for an IPv4 address.
    prefix_length: Mapped[int]
    # deny | without
    when_empty: Mapped[str] = mapped_column(server_default="deny")
    # How many addresses a cell keeps ready.
    stock: Mapped[int] = mapped_column(server_default=text("1024"))
    grace_seconds: Mapped[int] = mapped_column(server_default=text("600"))
    quarantine_seconds: Mapped[int] = mapped_column(server_default=text("300"))
    # Nothing new is given out of it; it goes with its last address.
    removing: Mapped[bool] = mapped_column(server_default=text("false"))


class PoolAddress(TenantOwned, Base):
    """One address of a pool: free (of no cell), stock (ready in one), leased, or quarantined."""

    __tablename__ = "pool_addresses"
    __table_args__ = (
        UniqueConstraint("tenant_id", "address", name="uq_pool_addresses_tenant_id_address"),
        ForeignKeyConstraint(["tenant_id", "pool_id"], ["pools.tenant_id", "pools.id"], ondelete="CASCADE"),
        Index(
            "ix_pool_addresses_free",
            "pool_id",
            text("until NULLS FIRST"),
            "number",
            postgresql_where=text("state = 'free'"),
        ),
        Index("ix_pool_addresses_stock", "pool_id", "cell_id", postgresql_where=text("state = 'stock'")),
        Index(
            "ix_pool_addresses_until",
            "tenant_id",
            "until",
            postgresql_where=text("state IN ('leased', 'quarantined')"),
        ),
        Index("ix_pool_addresses_mac", "tenant_id", "mac", postgresql_where=text("mac IS NOT NULL")),
        Index("ix_pool_addresses_leaving", "tenant_id", postgresql_where=text("leaving")),
        Index(
            "ix_pool_addresses_reserved_for",
            "pool_id",
            "reserved_for",
            postgresql_where=text("reserved_for IS NOT NULL"),
        ),
    )

    pool_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    # As 2001:db8:0:100::/56 where it is a prefix.
    address: Mapped[str] = mapped_column(HostAddress())
    state: Mapped[str] = mapped_column(server_default="free")
    # Was taken out of the pool: it goes as soon as nobody has it.
    leaving: Mapped[bool] = mapped_column(server_default=text("false"))
    reserved_for: Mapped[str | None] = mapped_column(Mac())
    cell_id: Mapped[CellId | None] = mapped_column(ForeignKey("cells.id", ondelete="SET NULL"))
    # Grows whenever the address is made ready: each number is taken once.
    grant_number: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Of the device that has it, or had it last.
    mac: Mapped[str | None] = mapped_column(Mac())
    # That device does not get it back.
    released: Mapped[bool] = mapped_column(server_default=text("false"))
    # The last Access-Accept with it.
    decided_at: Mapped[datetime | None]
    # leased: when to look whether a session holds it. quarantined: its end. Else: since when nobody has it.
    until: Mapped[datetime | None]
