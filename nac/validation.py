"""Checks of what people type, shared by the services. Each returns the value as it is stored or raises InvalidInput."""

import ipaddress
import re
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import UUID

from nac.clock import utc_now
from nac.errors import InvalidInput
from nac.mac import normalise_mac

# A DNS label (RFC 1035 2.3.1), because slugs become part of host names.
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME_CHARACTERS = 200
_URL_CHARACTERS = 1000
# A mail shows names to people who perhaps never asked for it: no room for a message, and none for a link.
MAX_MAILED_CHARACTERS = 80
# What mail programs make a link of; a name such as booking.example stays one.
_LINK = re.compile(r"://|www\.|@|\.[a-z0-9-]+[/:?#]", re.IGNORECASE)
# What a RADIUS server's configuration can carry: the other printable characters would begin an escape or an expansion
# in it, or end the string. The Message-Authenticator is an HMAC-MD5 over it, so that shorter ones are found offline
# (RFC 2865 3 asks for 16 octets).
RADIUS_SECRET = re.compile(r"[A-Za-z0-9._:/+=@!#*,;?~^-]{16,128}")
# In whichever time zone PostgreSQL tells of it, it must still be a date of Python's.
_MAX_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
# RADIUS carries 253 octets of a value in one attribute (RFC 2865 5).
_RADIUS_OCTETS = 253


def require_slug(text: str, *, place: str = "slug") -> str:
    if not _SLUG.fullmatch(text):
        raise InvalidInput(
            f"{text!r} is no slug.", place=place, remedy="Use 1 to 63 of a-z, 0-9 and -, not starting or ending with -."
        )
    return text


def require_name(text: str, *, place: str = "name") -> str:
    """A name for people: printable, not blank, and no place in a path (RFC 3986, 5.2.4)."""
    name = text.strip()
    if name in (".", "..") or not name or len(name) > _NAME_CHARACTERS or not name.isprintable():
        raise InvalidInput(
            f"{text!r} is no name.", place=place, remedy=f"Use 1 to {_NAME_CHARACTERS} printable characters."
        )
    return name


def is_mailable_name(name: str) -> bool:
    return len(name) <= MAX_MAILED_CHARACTERS and not _LINK.search(name)


def require_radius_text(text: str, *, place: str) -> str:
    """A value that arrives in one RADIUS attribute and is compared as it is."""
    if not text or len(text.encode()) > _RADIUS_OCTETS or not text.isprintable() or text != text.strip():
        raise InvalidInput(
            f"{text!r} cannot be sent as it is in RADIUS.",
            place=place,
            remedy=f"Use 1 to {_RADIUS_OCTETS} octets of printable text without blanks around it.",
        )
    return text


def require_mac(text: str, *, place: str = "mac") -> str:
    """12 hex digits of a single station."""
    mac = normalise_mac(text.strip())
    if not mac:
        raise InvalidInput(
            f"{text!r} is no MAC address.", place=place, remedy="Use 12 hex digits, such as aa:bb:cc:dd:ee:ff."
        )
    # The lowest bit of the first octet marks a group (IEEE 802-2014 8.2.2): no device sends from one.
    if int(mac[1], 16) & 1 or mac == "000000000000":
        raise InvalidInput(
            f"{text!r} is no address of a single device.", place=place, remedy="Read it off the device again."
        )
    return mac


def parse_id(text: str) -> UUID | None:
    """None where it is no id as they are shown: any other text may be a name."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def require_address(text: str, *, place: str = "address") -> str:
    """An IPv4 or IPv6 address of a host."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is no IP address.", place=place) from exc


def require_future(moment: datetime | None, *, place: str = "valid_until") -> datetime | None:
    """An end that is still to come (aware), or None for never."""
    if moment is not None and moment <= utc_now():
        raise InvalidInput(
            f"{moment:%Y-%m-%d %H:%M:%S %Z} has passed already.", place=place, remedy="Give a time to come."
        )
    if moment is not None and moment > _MAX_MOMENT:
        raise InvalidInput(f"{moment:%Y-%m-%d} is too far away.", place=place, remedy="Leave it out for no end.")
    return moment


def is_web_address(text: str) -> bool:
    """http or https with a host, and no user name in it (RFC 3986 3.2.1)."""
    if len(text) > _URL_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        # An address in brackets that is none.
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def is_https_address(text: str) -> bool:
    """As `is_web_address`, of https alone, with a port that there is and no fragment (RFC 9110 4.2.2)."""
    if not is_web_address(text):
        return False
    parts = urlsplit(text)
    try:
        return parts.scheme == "https" and parts.port != 0 and not parts.fragment
    except ValueError:
        # A port beyond 65535.
        return False


def require_web_address(text: str, *, place: str) -> str:
    """As `is_web_address`."""
    if not is_web_address(text):
        raise InvalidInput(
            f"{text[:_URL_CHARACTERS]!r} is no address on the web.", place=place, remedy="Use http:// or https://."
        )
    return text
