"""Checks of input values. Each check returns the value to store, or raises InvalidInput."""

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

# A slug must be a DNS label (RFC 1035 2.3.1), because it becomes part of host names.
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME_CHARACTERS = 200
_URL_CHARACTERS = 1000
# Maximum length of a name in a mail. Mails can go to people who never signed up, and a longer name could contain spam.
MAX_MAILED_CHARACTERS = 80
# Text that mail programs turn into links. A name such as booking.example remains possible.
_LINK = re.compile(r"://|www\.|@|\.[a-z0-9-]+[/:?#]", re.IGNORECASE)
# Allowed characters have no special meaning in a RADIUS server's configuration. The minimum is 16 octets (RFC 2865 3),
# because an attacker with one packet can find shorter secrets offline, by the Message-Authenticator (HMAC-MD5).
RADIUS_SECRET = re.compile(r"[A-Za-z0-9._:/+=@!#*,;?~^-]{16,128}")
# A mailbox (RFC 5321 4.1.2) without quoted strings and address literals.
_EMAIL = re.compile(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?=.{1,190}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}"
)
# Latest time that Python can represent in every time zone.
_MAX_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
# Maximum length of a RADIUS attribute value (RFC 2865 5).
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
    """Check the name of an object. The name must be printable and not blank, and not `.` or `..`, which clients remove
    from URLs (RFC 3986 5.2.4)."""
    name = text.strip()
    if name in (".", "..") or not name or len(name) > _NAME_CHARACTERS or not name.isprintable():
        raise InvalidInput(
            f"Invalid name {text!r}.", place=place, remedy=f"Use 1 to {_NAME_CHARACTERS} printable characters."
        )
    return name


def is_mailable_name(name: str) -> bool:
    return len(name) <= MAX_MAILED_CHARACTERS and not _LINK.search(name)


def require_radius_text(text: str, *, place: str) -> str:
    """Check a value that Admit compares exactly with the value of one RADIUS attribute."""
    if not text or len(text.encode()) > _RADIUS_OCTETS or not text.isprintable() or text != text.strip():
        raise InvalidInput(
            f"{text!r} cannot be a RADIUS attribute value.",
            place=place,
            remedy=f"Use 1 to {_RADIUS_OCTETS} octets of printable text, without leading or trailing blanks.",
        )
    return text


def require_mac(text: str, *, place: str = "mac") -> str:
    """Return the MAC address of a single device as 12 hex digits."""
    mac = normalise_mac(text.strip())
    if not mac:
        raise InvalidInput(
            f"Invalid MAC address {text!r}.", place=place, remedy="Use 12 hex digits, such as aa:bb:cc:dd:ee:ff."
        )
    # The lowest bit of the first octet marks a group address (IEEE 802-2014 8.2.2). No device sends from such an
    # address.
    if int(mac[1], 16) & 1 or mac == "000000000000":
        raise InvalidInput(
            f"{text!r} is not the address of a single device.",
            place=place,
            remedy="Use the address shown on the device.",
        )
    return mac


def parse_id(text: str) -> UUID | None:
    """Return the id if the text is a UUID in canonical form. Returns None for any other text, such as a name."""
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
    """Check that a time (with time zone) is in the future. None means that the period has no end."""
    if moment is not None and moment <= utc_now():
        raise InvalidInput(
            f"{moment:%Y-%m-%d %H:%M:%S %Z} is in the past.", place=place, remedy="Use a time in the future."
        )
    if moment is not None and moment > _MAX_MOMENT:
        raise InvalidInput(
            f"{moment:%Y-%m-%d} is too far in the future.", place=place, remedy="To set no end, omit the time."
        )
    return moment


def is_web_address(text: str) -> bool:
    """Return whether the text is an http or https URL with a host and without a user name (RFC 3986 3.2.1)."""
    if len(text) > _URL_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        # The host is an invalid IPv6 address in brackets.
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def is_https_address(text: str) -> bool:
    """Return whether the text is an https URL as in `is_web_address`, with a valid port and no fragment."""
    if not is_web_address(text):
        return False
    parts = urlsplit(text)
    try:
        return parts.scheme == "https" and parts.port != 0 and not parts.fragment
    except ValueError:
        # The port is above 65535.
        return False


def require_web_address(text: str, *, place: str) -> str:
    """Return the URL, if `is_web_address` accepts it."""
    if not is_web_address(text):
        raise InvalidInput(
            f"Invalid URL {text[:_URL_CHARACTERS]!r}.", place=place, remedy="Use an http:// or https:// URL."
        )
    return text


def require_email(text: str, *, place: str = "email") -> str:
    """Return the address in lower case.

    Rejects non-ASCII text, because lower-casing converts some non-ASCII letters to ASCII.
    """
    email = text.strip().lower()
    if not text.isascii() or not _EMAIL.fullmatch(email):
        raise InvalidInput(
            f"Invalid e-mail address {text!r}.", place=place, remedy="Use an address such as ann@example.com."
        )
    return email


RoutedNoun = Literal["nas", "pool", "user"]
# Words that the API uses in paths instead of a name. tests/api/test_route_words.py compares them with the routes.
RESERVED_NAMES: Final[Mapping[RoutedNoun, frozenset[str]]] = {
    "nas": frozenset({"bulk", "vendors"}),
    "pool": frozenset({"leases", "release"}),
    "user": frozenset({"bulk"}),
}


def require_not_reserved(noun: RoutedNoun, name: str, *, place: str = "name") -> str:
    """Check the name of a new object. Objects that already have a reserved name keep the name. Raises InvalidInput."""
    if name.strip() in RESERVED_NAMES[noun]:
        raise InvalidInput(
            f"{name.strip()!r} is reserved in API paths and cannot be used as a name.",
            place=place,
            remedy="Choose another name.",
        )
    return name
