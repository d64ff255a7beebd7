"""Converts values of database columns to JSON, and back with a check of the type."""

import base64
import binascii
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from ipaddress import ip_interface
from typing import Any
from uuid import UUID

from sqlalchemy import Column

from nac.kit.mac import normalise_mac

_MAX_DIGITS = 80
ColumnReader = Callable[[Any], Any]


def to_json(value: Any) -> Any:  # noqa: ANN401 -- whatever a column holds
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case UUID() | Decimal():
            return str(value)
        case datetime() | date():
            return value.isoformat()
    return value


def build_reader(column: Column[Any]) -> ColumnReader:
    """Return a function that converts JSON to a value of the column, or raises ValueError with a message for users."""
    kind = type(column.type).__name__.upper()
    reader = _READERS.get(kind)

    def read(value: Any) -> Any:  # noqa: ANN401 -- whatever a file holds
        if value is None:
            if not column.nullable:
                raise ValueError(f"{column.name} is missing")
            return None
        if reader is None:
            raise ValueError(f"{column.name} is not supported in a file")
        try:
            return reader(value)
        except (TypeError, ValueError, InvalidOperation, binascii.Error, OverflowError) as exc:
            raise ValueError(f"{column.name} is not a valid {kind.lower()}") from exc

    return read


def _read_text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    # Reject surrogates, because PostgreSQL cannot store them.
    value.encode()
    return value


def _read_integer(value: Any) -> int:  # noqa: ANN401
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError
    return value


def _read_boolean(value: Any) -> bool:  # noqa: ANN401
    if type(value) is not bool:
        raise ValueError
    return value


def _read_bytes(value: Any) -> bytes:  # noqa: ANN401
    return base64.b64decode(_read_text(value), validate=True)


def _read_texts(value: Any) -> list[str]:  # noqa: ANN401
    if not isinstance(value, list):
        raise TypeError
    return [_read_text(each) for each in value]


def _read_address(value: Any) -> str:  # noqa: ANN401
    return str(ip_interface(_read_text(value))) if "/" in _read_text(value) else str(ip_interface(_read_text(value)).ip)


def _read_mac(value: Any) -> str:  # noqa: ANN401
    mac = normalise_mac(_read_text(value))
    if not mac:
        raise ValueError
    return mac


def _read_moment(value: Any) -> datetime:  # noqa: ANN401
    moment = datetime.fromisoformat(_read_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment


def _read_decimal(value: Any) -> Decimal:  # noqa: ANN401
    text = _read_text(value)
    if len(text) > _MAX_DIGITS:
        raise ValueError
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError
    return number


def _read_json(value: Any) -> Any:  # noqa: ANN401
    """Return the value if no string in it contains NUL, which PostgreSQL cannot store. Raises ValueError."""
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, dict):
        return {_read_text(key): _read_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_read_json(each) for each in value]
    return value


_READERS = {
    "TEXT": _read_text,
    "UUID": lambda value: UUID(_read_text(value)),
    "BOOLEAN": _read_boolean,
    **dict.fromkeys(("INTEGER", "SMALLINTEGER", "BIGINTEGER", "BIGINT"), _read_integer),
    "NUMERIC": _read_decimal,
    "DATETIME": _read_moment,
    "DATE": lambda value: date.fromisoformat(_read_text(value)),
    "LARGEBINARY": _read_bytes,
    "ARRAY": _read_texts,
    **dict.fromkeys(("JSON", "JSONB"), _read_json),
    "HOSTADDRESS": _read_address,
    "MAC": _read_mac,
}
