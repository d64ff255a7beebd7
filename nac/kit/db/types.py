"""Column types with their own Python representation."""

from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql import INET, MACADDR
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import TypeDecorator, UserDefinedType

from nac.kit.mac import normalise_mac


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
