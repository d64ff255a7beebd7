"""Checks that radiusd 3.2 parses a text as a value of the attribute's type. Rejects ambiguous texts."""

import ipaddress
import re
from collections.abc import Callable, Mapping

_DIGITS = re.compile(r"(0|[1-9][0-9]*)\Z", re.ASCII)
_HEX_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}\Z")
_SIGNED = re.compile(r"-?(0|[1-9][0-9]{0,9})\Z", re.ASCII)
_OCTETS = re.compile(r"0x([0-9a-fA-F]{2})+\Z")
_ETHER = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\Z")
_IFID = re.compile(r"[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){3}\Z")

_ENUMERABLE = {"byte": 2**8, "short": 2**16, "integer": 2**32}
_UNSIGNED = {"integer64": 2**64, "date": 2**32}
_FIXED_BYTES = {
    "byte": 1, "short": 2, "integer": 4, "signed": 4, "date": 4, "ipaddr": 4, "ipv4prefix": 6, "ether": 6,
    "integer64": 8, "ifid": 8, "ipv6addr": 16, "ipv6prefix": 18,
}  # fmt: skip
REPLY_TYPES = frozenset((*_FIXED_BYTES, "string", "octets", "combo-ip"))


def require_value(name: str, kind: str, value: str, names: Mapping[str, int], length: int) -> None:
    """Raise ValueError unless radiusd can parse `value` as the type `kind`.

    `names` are the attribute's named values. `length` is the required number of octets, 0 for any number.
    """
    if kind in _ENUMERABLE:
        _require_enumerable(name, value, names, _ENUMERABLE[kind])
    elif kind in _UNSIGNED:
        _require_below(name, value, _UNSIGNED[kind])
    elif kind == "octets":
        _require_octets(name, value, length)
    elif kind == "string":
        _require_string(name, value)
    else:
        _PARSERS[kind](name, value)


def count_data_bytes(kind: str, value: str) -> int:
    """Return the number of octets of a checked value, without headers, tag and encryption."""
    if kind == "string":
        return len(value.encode())
    if kind == "octets":
        return len(value) // 2 - 1
    if kind == "combo-ip":
        return 16 if ":" in value else 4
    return _FIXED_BYTES[kind]


def _require_enumerable(name: str, value: str, names: Mapping[str, int], limit: int) -> None:
    # Like radiusd, read a text that consists of digits as a number, even if it is also the name of a value.
    if _DIGITS.match(value) or _HEX_NUMBER.match(value):
        if len(value) > 10 or int(value, 0) >= limit:
            raise ValueError(f"{name} must be a number from 0 to {limit - 1}")
    elif value.lower() not in names or not _is_read_as_name(value):
        choice = f" or one of: {_list_some(names)}" if names else ""
        raise ValueError(f"invalid value {value[:64]!r} of {name}: use a number from 0 to {limit - 1}{choice}")


def _is_read_as_name(value: str) -> bool:
    """Return whether radiusd reads `value` as the name of a value. radiusd skips leading digits, and reads any
    remaining text as a name."""
    rest = re.sub(r"\A[ \t]*[+-]?(0x[0-9a-fA-F]+|[0-9]+)", "", value)
    return bool(rest.strip())


def _list_some(names: Mapping[str, int]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:12]) + (", ..." if len(listed) > 12 else "")


def _require_below(name: str, value: str, limit: int) -> None:
    if not _DIGITS.match(value) or len(value) > 20 or int(value) >= limit:
        what = "epoch seconds" if limit == _UNSIGNED["date"] else "a number"
        raise ValueError(f"{name} must be {what} from 0 to {limit - 1}")


def _require_string(name: str, value: str) -> None:
    try:
        good = bool(value) and "\0" not in value and bool(value.encode())
    except UnicodeEncodeError:
        good = False
    if not good:
        raise ValueError(f"{name} must be nonempty text without NUL")


def _require_octets(name: str, value: str, length: int) -> None:
    if not _OCTETS.match(value):
        raise ValueError(f"{name} must be in hex: 0x and pairs of digits, such as 0x01af")
    if length and count_data_bytes("octets", value) != length:
        raise ValueError(f"{name} must have {length} octets ({2 * length} hex digits)")


def _require_signed(name: str, value: str) -> None:
    if not _SIGNED.match(value) or not -(2**31) <= int(value) < 2**31:
        raise ValueError(f"{name} must be a number from {-(2**31)} to {2**31 - 1}")


def _require_ipv4(name: str, value: str) -> None:
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(f"{name} must be an IPv4 address such as 192.0.2.1") from None


def _require_ipv6(name: str, value: str) -> None:
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        address = None
    if address is None or address.scope_id is not None:
        raise ValueError(f"{name} must be an IPv6 address such as 2001:db8::1")


def _require_any_ip(name: str, value: str) -> None:
    if ":" in value:
        _require_ipv6(name, value)
    else:
        _require_ipv4(name, value)


def _require_prefix(require_address: Callable[[str, str], None], bits: int, example: str) -> Callable[[str, str], None]:
    def require(name: str, value: str) -> None:
        address, slash, length = value.partition("/")
        if not slash or not _DIGITS.match(length) or len(length) > 3 or int(length) > bits:
            raise ValueError(f"{name} must be a prefix such as {example}")
        require_address(name, address)

    return require


def _require_form(form: re.Pattern[str], example: str) -> Callable[[str, str], None]:
    def require(name: str, value: str) -> None:
        if not form.match(value):
            raise ValueError(f"{name} must have the form {example}")

    return require


_PARSERS: dict[str, Callable[[str, str], None]] = {
    "signed": _require_signed,
    "ipaddr": _require_ipv4,
    "ipv6addr": _require_ipv6,
    "combo-ip": _require_any_ip,
    "ipv4prefix": _require_prefix(_require_ipv4, 32, "192.0.2.0/24"),
    "ipv6prefix": _require_prefix(_require_ipv6, 128, "2001:db8::/32"),
    "ether": _require_form(_ETHER, "00:11:22:aa:bb:cc"),
    "ifid": _require_form(_IFID, "1122:3344:5566:7788"),
}
