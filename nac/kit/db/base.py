"""Declarative base class of all models, and types of columns whose values have a different form in Python.

The naming convention gives constraints the same names in models and migrations, so that `alembic check` can compare
them.
"""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID, uuid4

from sqlalchemy import (
    DateTime,
    Dialect,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
)
from sqlalchemy.dialects.postgresql import INET, JSONB, MACADDR
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
from sqlalchemy.types import TypeDecorator, UserDefinedType

from nac.kit.db.declarations import FileContent, FileExclusion, FileLog, Purge, Reference, TableDeclaration
from nac.kit.ids import CellId, MspId, SlotNumber, TenantId, TenantNumber
from nac.kit.mac import normalise_mac
from nac.kit.permissions import Effect

NAMING_CONVENTION = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


class Base(DeclarativeBase):
    # Noun and field name for errors about a row of this table to which a row of another table refers.
    reference: ClassVar[Reference | None] = None
    # Plural noun for the rows in messages. "" means the table's name.
    plural: ClassVar[str] = ""
    # Whether tenant files contain the rows. Each table with a column `tenant_id` must set this attribute.
    tenant_file: ClassVar[FileContent | FileLog | FileExclusion | None] = None
    purge: ClassVar[Purge | None] = None
    # Each API route that writes rows of this table must declare at least one of these effects, which a test checks.
    # Empty for tables whose rows only record actions or pending work. None if no route writes rows of this table.
    effects: ClassVar[tuple[Effect, ...] | None] = None

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        bytes: LargeBinary(),
        datetime: DateTime(timezone=True),
        UUID: Uuid(),
        TenantId: Uuid(),
        MspId: Uuid(),
        CellId: Integer(),
        TenantNumber: Integer(),
        SlotNumber: SmallInteger(),
        dict[str, Any]: JSONB(),
        list[Any]: JSONB(),
    }

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if isinstance(table := cls.__dict__.get("__table__"), Table):
            table.info[TableDeclaration] = TableDeclaration(
                cls.reference, cls.plural, cls.tenant_file, cls.purge, cls.effects
            )


class UuidKey:
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)


class CreatedAt:
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class UpdatedAt:
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class TenantOwned:
    """Mixin for tables whose rows belong to a tenant. PostgreSQL deletes the rows together with the tenant.

    Tests check that row-level security covers these tables.
    """

    @declared_attr
    @classmethod
    def tenant_id(cls) -> Mapped[TenantId]:
        return mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))


class Mac(TypeDecorator[str]):
    """PostgreSQL type macaddr. In Python, a MAC address is text of 12 lower-case hex digits."""

    impl = MACADDR
    cache_ok = True

    def process_result_value(self, value: object | None, dialect: Dialect) -> str | None:
        return None if value is None else normalise_mac(str(value))


class HostAddress(TypeDecorator[str]):
    """PostgreSQL type inet for a single host. In Python, a host address is text without a prefix length."""

    impl = INET
    cache_ok = True

    def process_result_value(self, value: object | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)


class Xid8(UserDefinedType[str]):
    """PostgreSQL type xid8, a 64-bit transaction id without wraparound. In Python, a transaction id is text of
    decimal digits."""

    cache_ok = True

    def get_col_spec(self, **kw: object) -> str:
        return "xid8"


class PgSnapshot(UserDefinedType[str]):
    """PostgreSQL type pg_snapshot, a set of finished transactions. Used only in casts."""

    cache_ok = True

    def get_col_spec(self, **kw: object) -> str:
        return "pg_snapshot"


# Prevents a warning about unknown types when `alembic check` reads the database.
ischema_names["xid8"] = Xid8
ischema_names["pg_snapshot"] = PgSnapshot
