from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, Mac, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, Purge, Reference, report_taken
from nac.kit.ids import CellId, TenantId
from nac.kit.permissions import Effect, Permission


class Pool(UuidKey, TenantOwned, CreatedAt, Base):
    """A pool of addresses or prefixes. Devices get an address or prefix of the pool in an Access-Accept."""

    __tablename__ = "pools"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "site_id",
            "name",
            name="uq_pools_tenant_id_site_id",
            postgresql_nulls_not_distinct=True,
            info=report_taken("name", "A pool with this name already exists."),
        ),
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "site_id"], ["sites.tenant_id", "sites.id"], name="fk_pools_tenant_id_sites"
        ),
    )
    reference = Reference("pool", "a pool")
    tenant_file = FileContent(Permission.POOL_READ, (Permission.POOL_MANAGE,))
    effects = (Effect.FACTS,)

    tenant_id: Mapped[TenantId] = mapped_column(
        ForeignKey("tenants.id", name="fk_pools_tenant_id_tenants", ondelete="CASCADE")
    )
    # Null for a pool of the whole tenant. A pool of a site overrides the tenant's pool of the same name.
    site_id: Mapped[UUID | None]
    name: Mapped[str]
    # A value of nac.pools.extent.PoolKind.
    kind: Mapped[str]
    ranges: Mapped[list[str]] = mapped_column(ARRAY(Text()))
    exclusions: Mapped[list[str]] = mapped_column(ARRAY(Text()), server_default=text("'{}'"))
    # Prefix length of a device's address; 32 for IPv4.
    prefix_length: Mapped[int]
    # If no address is free: deny | without (admit without an address)
    when_empty: Mapped[str] = mapped_column(server_default="deny")
    # Number of addresses that a cell keeps ready.
    stock: Mapped[int] = mapped_column(server_default=text("1024"))
    grace_seconds: Mapped[int] = mapped_column(server_default=text("600"))
    quarantine_seconds: Mapped[int] = mapped_column(server_default=text("300"))
    # Whether the pool is being deleted. Such a pool assigns no addresses, and Admit deletes it with its last lease.
    removing: Mapped[bool] = mapped_column(server_default=text("false"))


class PoolAddress(TenantOwned, Base):
    """An address of a pool. States: free, stock (ready in a cell), leased or quarantined."""

    __tablename__ = "pool_addresses"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "address",
            info=report_taken("ranges", "Another pool already contains at least one address of this pool."),
        ),
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
    purge = Purge.BATCHES
    tenant_file = FileContent(
        Permission.POOL_READ,
        (Permission.POOL_MANAGE,),
        reset={
            "cell_id": None,
            "decided_at": None,
            "grant_number": 0,
            "mac": None,
            "released": False,
            "state": "free",
            "until": None,
        },
    )
    effects = (Effect.FACTS,)

    tenant_id: Mapped[TenantId] = mapped_column(
        ForeignKey("tenants.id", name="fk_pool_addresses_tenant_id_tenants", ondelete="CASCADE")
    )
    pool_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    # An address, or a prefix such as 2001:db8:0:100::/56.
    address: Mapped[str] = mapped_column(HostAddress())
    state: Mapped[str] = mapped_column(server_default="free")
    # Whether the address was removed from the pool while in use.
    leaving: Mapped[bool] = mapped_column(server_default=text("false"))
    reserved_for: Mapped[str | None] = mapped_column(Mac())
    cell_id: Mapped[CellId | None] = mapped_column(
        ForeignKey("cells.id", name="fk_pool_addresses_cell_id_cells", ondelete="SET NULL")
    )
    # Number that increases each time a cell gets the address. Each number is valid for one lease.
    grant_number: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # MAC address of the current or last device.
    mac: Mapped[str | None] = mapped_column(Mac())
    # Whether an administrator released the address, so that the device does not get it again.
    released: Mapped[bool] = mapped_column(server_default=text("false"))
    # Time of the last Access-Accept with this address.
    decided_at: Mapped[datetime | None]
    # For a lease: time when Admit checks for a session. In quarantine: end of the quarantine. Otherwise: time since
    # when the address is unused.
    until: Mapped[datetime | None]
