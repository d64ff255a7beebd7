"""Parsing of the results in rules, fallbacks and profiles, key by key."""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from nac.engine.mistakes import MistakeReport, at_index, at_key
from nac.engine.vendors import (
    DEFAULT_VENDOR,
    NEUTRAL_KEYS,
    POOL_KEYS,
    DownloadableAcl,
    ReplyAttribute,
    Results,
    known_vendor,
)

RESULT_KEYS = (*NEUTRAL_KEYS, *POOL_KEYS, "reply")
MAX_REPLY_ATTRIBUTES = 100
MAX_ACL_ENTRIES = 100
# Range of a session timeout: at least a minute, to limit the load. RFC 2865 5.27 allows 32 bits, which some NASes read
# as a signed number.
SESSION_SECONDS_RANGE = (60, 2**31)
_MAX_VLAN_NAME_BYTES = 32
_MAX_NAME_BYTES = 128
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,126}\Z")

# The same form as in nac.kit.validation.require_slug.
_POOL_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")

# Placeholder for an invalid attribute, so that the following attributes keep their index.
UNREADABLE_ATTRIBUTE = ReplyAttribute("", "+=", "")

# Parsed results by field name, only for keys in the document.
ParsedResults = dict[str, Any]


def parse_results(document: Mapping[str, object], place: str, report: MistakeReport) -> ParsedResults:
    """Return the valid results in `document`, and report invalid results. null counts as absent."""
    parsed: ParsedResults = {}
    for key in RESULT_KEYS:
        value = document.get(key)
        if value is not None:
            found = _PARSERS[key](value, at_key(place, key), report)
            if found is not None:
                parsed[key] = found
    return parsed


def build_results(parsed: ParsedResults, place: str, report: MistakeReport) -> Results:
    """Return the results, and report results that contradict each other."""
    results = Results(**parsed)
    if results.reauthenticate and not results.session_timeout:
        report.add(at_key(place, "reauthenticate"), "requires session_timeout, the time until reauthentication")
    if results.acl and results.downloadable_acl:
        report.add(at_key(place, "downloadable_acl"), "acl is set, too; use one of the two (RFC 4849 2)")
    return results


def _vlan(value: object, place: str, report: MistakeReport) -> str | None:
    if not isinstance(value, str) or not value:
        report.add(place, 'must be text in quotes: an id such as "20", or the name of a VLAN')
        return None
    if value.isdigit():
        if not value.isascii() or value.startswith("0") or len(value) > 4 or not 1 <= int(value) <= 4094:
            report.add(place, "must be a VLAN id from 1 to 4094 (IEEE 802.1Q), without leading zeros")
            return None
    elif not _is_name(value, _MAX_VLAN_NAME_BYTES):
        report.add(
            place, f"a VLAN name must have 1 to {_MAX_VLAN_NAME_BYTES} printable characters (IEEE 802.1Q 12.10.2)"
        )
        return None
    return value


def _is_name(value: object, most_bytes: int = _MAX_NAME_BYTES) -> bool:
    return (
        isinstance(value, str)
        and bool(value)
        and value.isprintable()
        and value == value.strip()
        and len(value.encode("utf-8", "surrogatepass")) <= most_bytes
    )


def _name(value: object, place: str, report: MistakeReport) -> object:
    if _is_name(value):
        return value
    report.add(place, f"must be a name on the NAS: text of 1 to {_MAX_NAME_BYTES} printable characters")
    return None


def _session_timeout(value: object, place: str, report: MistakeReport) -> int | None:
    least, most = SESSION_SECONDS_RANGE
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    report.add(place, f"must be a whole number of seconds from {least} to {most}, without quotes")
    return None


def _reauthenticate(value: object, place: str, report: MistakeReport) -> bool | None:
    if isinstance(value, bool):
        return value
    report.add(place, "must be true or false")
    return None


def _psk(value: object, place: str, report: MistakeReport) -> object:
    if value == "endpoint":
        return value
    report.add(place, 'must be "endpoint" (the passphrase of the endpoint or its group)')
    return None


def _pool(value: object, place: str, report: MistakeReport) -> str | None:
    if isinstance(value, str) and _POOL_NAME.match(value):
        return value
    report.add(place, "must be the name of a pool: 1 to 63 of a-z, 0-9 and -, not starting or ending with -")
    return None


def _downloadable_acl(value: object, place: str, report: MistakeReport) -> DownloadableAcl | None:
    if isinstance(value, list):
        entries = _entries(value, place, report)
        return None if entries is None else DownloadableAcl(entries=entries)
    if not isinstance(value, dict):
        report.add(place, 'must be a list of entries, or {"name": ..., "entries": [...]}')
        return None
    for key in value:
        if key not in ("name", "entries"):
            report.add(at_key(place, key), "unknown key; keys of a downloadable ACL: name, entries")
    name = _name(value["name"], at_key(place, "name"), report) if "name" in value else ""
    listed, where = value.get("entries"), at_key(place, "entries")
    if not isinstance(listed, dict):
        entries = _entries(listed, where, report)
        return None if entries is None or name is None else DownloadableAcl(str(name), entries)
    by_vendor = _entries_by_vendor(listed, where, report)
    if by_vendor is None or name is None:
        return None
    return DownloadableAcl(str(name), by_vendor.pop(DEFAULT_VENDOR, ()), tuple(by_vendor.items()))


def _entries_by_vendor(
    value: dict[str, object], place: str, report: MistakeReport
) -> dict[str, tuple[str, ...]] | None:
    found: dict[str, tuple[str, ...]] = {}
    good = bool(value)
    if not value:
        report.add(place, "must have entries for at least one vendor")
    for written, listed in value.items():
        vendor, where = known_vendor(written), at_key(place, written)
        if vendor is None:
            report.add(where, "unknown vendor; list vendors with `nas vendors`")
        elif vendor.name in found:
            report.add(where, f"{vendor.name} already has entries")
        entries = _entries(listed, where, report)
        # Entries that a named vendor does not support are a mistake. Entries under "default" are for other vendors.
        why = vendor.entries_refusal_reason(entries) if vendor and entries and vendor.name != DEFAULT_VENDOR else ""
        if why:
            report.add(where, why)
        if vendor is None or vendor.name in found or entries is None or why:
            good = False
        else:
            found[vendor.name] = entries
    return found if good else None


def _entries(value: object, place: str, report: MistakeReport) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not value:
        report.add(place, "must be a non-empty list of entries, text in the syntax of the NAS")
        return None
    if len(value) > MAX_ACL_ENTRIES:
        report.add(place, f"too many entries: {len(value)}; the limit is {MAX_ACL_ENTRIES}")
        return None
    wrong = [index for index, entry in enumerate(value) if not _is_name(entry, 4096)]
    for index in wrong:
        report.add(at_index(place, index), "must be one line of printable text, without spaces around it")
    return None if wrong else tuple(value)


def _reply(value: object, place: str, report: MistakeReport) -> tuple[ReplyAttribute, ...] | None:
    if not isinstance(value, list):
        report.add(place, "must be a list of attributes")
        return None
    if len(value) > MAX_REPLY_ATTRIBUTES:
        report.add(place, f"more than {MAX_REPLY_ATTRIBUTES} attributes")
        return None
    found: list[ReplyAttribute] = []
    seen: set[str] = set()
    for index, entry in enumerate(value):
        where = at_index(place, index)
        item = _attribute(entry, where, report)
        found.append(item or UNREADABLE_ATTRIBUTE)
        if item is None:
            continue
        name = item.attribute.lower()
        if name in seen and item.operator == ":=":
            # radiusd replaces the first attribute of that name, even if it has another tag.
            report.add(
                at_key(where, "operator"), f'":=" replaces the previous {item.attribute}; "+=" sends both values'
            )
        seen.add(name)
    return tuple(found)


def _attribute(document: object, place: str, report: MistakeReport) -> ReplyAttribute | None:
    if not isinstance(document, dict):
        report.add(place, 'must be an object: {"attribute": ..., "value": ...}')
        return None
    for key in document:
        if key not in ("attribute", "operator", "value", "tag"):
            report.add(at_key(place, key), "unknown key; keys of a reply attribute: attribute, operator, value, tag")
    name, operator = document.get("attribute"), document.get("operator", ":=")
    value, tag = document.get("value"), document.get("tag")
    good = True
    if not isinstance(name, str) or not _ATTRIBUTE_NAME.match(name):
        report.add(at_key(place, "attribute"), "must be the name of a RADIUS attribute; use the key tag for a tag")
        good = False
    if operator not in (":=", "+="):
        report.add(at_key(place, "operator"), 'must be ":=" (set, the default) or "+=" (add one more)')
        good = False
    if not isinstance(value, str) or not value:
        report.add(at_key(place, "value"), "must be non-empty text in quotes, also for numbers")
        good = False
    if tag is not None and (not isinstance(tag, int) or isinstance(tag, bool) or not 0 <= tag <= 31):
        report.add(at_key(place, "tag"), "must be a number from 0 to 31 (RFC 2868 3)")
        good = False
    if not good:
        return None
    return ReplyAttribute(cast(str, name), cast(str, operator), cast(str, value), cast("int | None", tag))


_PARSERS: dict[str, Callable[[object, str, MistakeReport], object]] = {
    "vlan": _vlan,
    "acl": _name,
    "downloadable_acl": _downloadable_acl,
    "role": _name,
    "session_timeout": _session_timeout,
    "reauthenticate": _reauthenticate,
    "psk": _psk,
    **dict.fromkeys(POOL_KEYS, _pool),
    "reply": _reply,
}
