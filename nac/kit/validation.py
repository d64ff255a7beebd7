"""Checks of input, shared by the services. Each returns the value to store, or raises InvalidInput."""

import ipaddress
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.mac import normalise_mac

# A DNS label (RFC 1035 2.3.1), because slugs become part of host names.
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME_CHARACTERS = 200
_URL_CHARACTERS = 1000
# Mails show names to people who perhaps never signed up, so a name must not have room for a message or a link.
MAX_MAILED_CHARACTERS = 80
# Text that mail programs turn into links; a name such as booking.example remains possible.
_LINK = re.compile(r"://|www\.|@|\.[a-z0-9-]+[/:?#]", re.IGNORECASE)
# Characters without a meaning in a RADIUS server's configuration; others begin an escape or end the string. Minimum 16
# octets (RFC 2865 3), because shorter secrets can be found offline from the Message-Authenticator, an HMAC-MD5.
RADIUS_SECRET = re.compile(r"[A-Za-z0-9._:/+=@!#*,;?~^-]{16,128}")
# A mailbox (RFC 5321 4.1.2) without quoted strings and address literals.
_EMAIL = re.compile(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?=.{1,190}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
)
# A valid Python date in every time zone.
_MAX_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
# An attribute carries at most 253 octets (RFC 2865 5).
_RADIUS_OCTETS = 253


def require_slug(text: str, *, place: str = "slug") -> str:
    if not _SLUG.fullmatch(text):
        raise InvalidInput(
            f"Invalid slug {text!r}.",
            place=place,
            remedy="Use 1 to 63 characters of a-z, 0-9 and -, not starting or ending with -.",
        )
    return text


def require_name(text: str, *, place: str = "name") -> str:
    """Check a name for people: printable, not blank, and not a relative path segment (RFC 3986 5.2.4)."""
    name = text.strip()
    if name in (".", "..") or not name or len(name) > _NAME_CHARACTERS or not name.isprintable():
        raise InvalidInput(
            f"Invalid name {text!r}.", place=place, remedy=f"Use 1 to {_NAME_CHARACTERS} printable characters."
        )
    return name


def is_mailable_name(name: str) -> bool:
    return len(name) <= MAX_MAILED_CHARACTERS and not _LINK.search(name)


def require_radius_text(text: str, *, place: str) -> str:
    """Check a value that arrives in one RADIUS attribute and is compared exactly."""
    if not text or len(text.encode()) > _RADIUS_OCTETS or not text.isprintable() or text != text.strip():
        raise InvalidInput(
            f"{text!r} cannot be a RADIUS attribute value.",
            place=place,
            remedy=f"Use 1 to {_RADIUS_OCTETS} octets of printable text, without leading or trailing blanks.",
        )
    return text


def require_mac(text: str, *, place: str = "mac") -> str:
    """Return 12 hex digits of a single station's address."""
    mac = normalise_mac(text.strip())
    if not mac:
        raise InvalidInput(
            f"Invalid MAC address {text!r}.", place=place, remedy="Use 12 hex digits, such as aa:bb:cc:dd:ee:ff."
        )
    # The lowest bit of the first octet marks a group (IEEE 802-2014 8.2.2), from which no device sends.
    if int(mac[1], 16) & 1 or mac == "000000000000":
        raise InvalidInput(
            f"{text!r} is not the address of a single device.",
            place=place,
            remedy="Use the address shown on the device.",
        )
    return mac


def parse_id(text: str) -> UUID | None:
    """Return an id in canonical form; None for any other text, which can be a name."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def require_address(text: str, *, place: str = "address") -> str:
    """Return the IPv4 or IPv6 address of a host."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as exc:
        raise InvalidInput(f"Invalid IP address {text!r}.", place=place) from exc


def require_future(moment: datetime | None, *, place: str = "valid_until") -> datetime | None:
    """Check a future end (aware), or None for never."""
    if moment is not None and moment <= utc_now():
        raise InvalidInput(f"{moment:%Y-%m-%d %H:%M:%S %Z} is in the past.", place=place, remedy="Use a future time.")
    if moment is not None and moment > _MAX_MOMENT:
        raise InvalidInput(f"{moment:%Y-%m-%d} is too far in the future.", place=place, remedy="Omit it to set no end.")
    return moment


def is_web_address(text: str) -> bool:
    """Return whether it is an http or https URL with a host and without a user name (RFC 3986 3.2.1)."""
    if len(text) > _URL_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        # Invalid address in brackets.
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def is_https_address(text: str) -> bool:
    """Like `is_web_address`, only for https, with a valid port and without fragment (RFC 9110 4.2.2)."""
    if not is_web_address(text):
        return False
    parts = urlsplit(text)
    try:
        return parts.scheme == "https" and parts.port != 0 and not parts.fragment
    except ValueError:
        # Port above 65535.
        return False


def require_web_address(text: str, *, place: str) -> str:
    """Check with `is_web_address`."""
    if not is_web_address(text):
        raise InvalidInput(
            f"Invalid URL {text[:_URL_CHARACTERS]!r}.", place=place, remedy="Use an http:// or https:// URL."
        )
    return text


def require_email(text: str, *, place: str = "email") -> str:
    """The address in lower case. Checks for ASCII first, because some other letters become ASCII in lower case."""
    email = text.strip().lower()
    if not text.isascii() or not _EMAIL.fullmatch(email):
        raise InvalidInput(f"Invalid e-mail address {text!r}.", place=place, remedy="Use one like ann@example.com.")
    return email


RoutedNoun = Literal["nas", "pool", "user"]
# By path parameter; tests/api/test_route_words.py compares them with the routes.
RESERVED_NAMES: Final[Mapping[RoutedNoun, frozenset[str]]] = {
    "nas": frozenset({"bulk", "vendors"}),
    "pool": frozenset({"leases", "release"}),
    "user": frozenset({"bulk"}),
}


def require_not_reserved(noun: RoutedNoun, name: str, *, place: str = "name") -> str:
    """Check a new name; existing objects keep theirs. Raises InvalidInput."""
    if name.strip() in RESERVED_NAMES[noun]:
        raise InvalidInput(
            f"{name.strip()!r} is reserved in API paths and cannot be used as a name.",
            place=place,
            remedy="Choose another name.",
        )
    return name
