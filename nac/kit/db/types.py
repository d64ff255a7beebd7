"""Column types with the product's own Python representation."""

from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql import INET, MACADDR
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import TypeDecorator, UserDefinedType

from nac.kit.mac import normalise_mac


class Mac(TypeDecorator[str]):
    """macaddr; 12 lower-case hex digits in Python."""

    impl = MACADDR
    cache_ok = True

    def process_result_value(self, value: object | None, dialect: Dialect) -> str | None:
        return None if value is None else normalise_mac(str(value))


class HostAddress(TypeDecorator[str]):
    """inet of a single host; text without a prefix length in Python."""

    impl = INET
    cache_ok = True

    def process_result_value(self, value: object | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)


class Xid8(UserDefinedType[str]):
    """A 64-bit transaction id without wraparound; decimal digits in Python."""

    cache_ok = True

    def get_col_spec(self, **kw: object) -> str:
        return "xid8"


class PgSnapshot(UserDefinedType[str]):
    """A snapshot of finished transactions; only for casts."""

    cache_ok = True

    def get_col_spec(self, **kw: object) -> str:
        return "pg_snapshot"


# Prevents a warning of reflection (`alembic check`) about unknown types.
ischema_names["xid8"] = Xid8
ischema_names["pg_snapshot"] = PgSnapshot
