"""MAC addresses in the notations of switches and access points (IEEE 802, RFC 3580 3.21)."""

import re
from functools import lru_cache

# Separators in the notations: Cisco 0011.2233.4455, IEEE 00-11-22-33-44-55, UNIX 00:11:..., HP 001122-334455, Juniper
# 001122334455, and blanks.
_SEPARATORS = str.maketrans("", "", ":-. ")
_HEX = frozenset("0123456789abcdef")
# Lengths of a MAC address with no, one, two or five separators. Before an SSID, `called_station_ssid` accepts any text
# with a length in `_ANY_SEPARATOR_LENGTHS`.
_LENGTHS = (12, 13, 14, 17)
_ANY_SEPARATOR_LENGTHS = (12, 17)
_EUI_64 = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){7}", re.IGNORECASE)


# Cached, because a packet contains an address in several attributes, and devices authenticate repeatedly. The cache
# needs 2 MB.
@lru_cache(maxsize=8192)
def normalise_mac(text: str) -> str:
    """Return 12 lower-case hex digits, or "" if `text` is not a MAC address.

    A Called-Station-Id with an SSID is not a MAC address (RFC 3580 3.20).
    """
    length = len(text)
    if length < 12 or length > 17:
        return ""
    digits = text.translate(_SEPARATORS).lower()
    if len(digits) != 12 or not _HEX.issuperset(digits):
        return ""
    return digits


def station_mac(text: str) -> str:
    """Return the MAC address in a Calling-Station-Id, or "". Some controllers append ":" and the SSID.

    An EUI-64 (8 octets) is not a MAC address, although its text begins like one.
    """
    return normalise_mac(text) or (_mac_before_ssid(text) if text else "")


@lru_cache(maxsize=8192)
def _mac_before_ssid(text: str) -> str:
    if _EUI_64.fullmatch(text):
        return ""
    return next((normalise_mac(text[:length]) for length in _LENGTHS if _is_followed_by_ssid(text, length)), "")


def _is_followed_by_ssid(text: str, length: int) -> bool:
    return text[length : length + 1] == ":" and normalise_mac(text[:length]) != ""


def display_mac(digits: str) -> str:
    """Return the address in the notation for users: aa:bb:cc:dd:ee:ff."""
    # A loop would take three times as long. Lists show thousands of addresses.
    return f"{digits[:2]}:{digits[2:4]}:{digits[4:6]}:{digits[6:8]}:{digits[8:10]}:{digits[10:]}"


def is_random_mac(digits: str) -> bool:
    """Return whether the locally administered bit is set (IEEE 802c).

    Phones and laptops set this bit in the random addresses that hide their real address.
    """
    return digits[1:2] in ("2", "6", "a", "e")


def called_station_ssid(text: str) -> str:
    """Return the SSID in a Called-Station-Id, or "" (RFC 3580 3.20). An example is "00-10-A4-23-19-C0:AP1"."""
    # Try short lengths first, because an SSID can contain colons.
    for length in _LENGTHS:
        if text[length : length + 1] == ":" and (length in _ANY_SEPARATOR_LENGTHS or normalise_mac(text[:length])):
            return text[length + 1 :]
    return ""
