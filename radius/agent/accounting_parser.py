"""Values of an Accounting-Request (RFC 2866, 2869, 3162), with checks for known faults of NASes."""

import calendar
import hashlib
import time
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Network

from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.packet_values import parse_decided_at
from nac.kit.mac import station_mac
from nac.logs.events.accounting import AccountingRequest
from radius.agent.copy_format import copy_line, encode_json, host_address

_SECOND = 1_000_000
_DAY_SECONDS = 86_400
# Largest plausible Acct-Delay-Time: a NAS repeats a record for hours at most.
MAX_DELAY_SECONDS = _DAY_SECONDS
# Largest plausible clock error of a NAS. If the error is larger, the arrival time replaces Event-Timestamp.
MAX_EVENT_AGE_SECONDS = _DAY_SECONDS
MAX_EVENT_AHEAD_SECONDS = 300
# Largest plausible Acct-Session-Time, ten years. The attribute itself can count 136 years.
MAX_SESSION_SECONDS = 10 * 366 * _DAY_SECONDS
_INT8_MAX = 2**63 - 1
# A PostgreSQL index entry holds 2,704 bytes: three texts of 253 characters (RFC 2865 5), each up to 3 bytes, fit.
MAX_KEY_CHARACTERS = 253
_DIGEST_CHARACTERS = 16
RESTART_STATUS_TYPES = ("Accounting-On", "Accounting-Off")
# Flags for faults of a record; docs/reference/accounting.md explains them.
IMPOSSIBLE_TIME = "impossible-time"
SESSION_ID_MISSING = "session-id-missing"
SESSION_ID_REPEATED = "session-id-repeated"
UNREADABLE_TEXT = "unreadable-text"


@dataclass(slots=True)
class ParsedAccounting:
    """A parsed Accounting-Request. Times are epoch microseconds; None means that the NAS did not send the value."""

    at: int
    tenant_id: str
    site_id: str
    nas_id: str
    nas_address: str
    nas_key: str
    status_type: str
    session_id: str
    mac: str
    mac_key: str
    identity: str
    nas_port: str
    framed_ip: str
    framed_ipv6: str
    framed_prefix: str
    delegated_prefix: str
    # RADIUS Class: identifies the decision that admitted the device (nac.cellformat.packet_values).
    class_: str
    cui: str
    # Time of the event at the NAS.
    event_at: int
    session_seconds: int | None
    input_octets: int | None
    output_octets: int | None
    terminate_cause: str
    # Flags of the faults in this record.
    faults: tuple[str, ...] = ()


def parse_accounting(record: AccountingRecord) -> ParsedAccounting:
    values = dict(record.attributes)
    if len(values) < len(record.attributes):
        # If an attribute is repeated, its first value counts, as in authentication.
        values = dict(reversed(record.attributes))
    get = values.get
    station = get("Calling-Station-Id", "")
    mac = station_mac(station)
    identifier = get("NAS-Identifier", "")
    stated = get("NAS-IP-Address") or get("NAS-IPv6-Address") or ""
    session_id = get("Acct-Session-Id", "")
    name, port = get("User-Name", ""), get("NAS-Port-Id") or get("NAS-Port") or ""
    event_at, is_impossible = _find_event_time(record.at, get("Acct-Delay-Time", ""), get("Event-Timestamp", ""))
    lasted = get("Acct-Session-Time", "")
    session_seconds = _parse_number(lasted, MAX_SESSION_SECONDS)
    return ParsedAccounting(
        at=record.at,
        tenant_id=record.tenant_id,
        site_id=record.site_id,
        nas_id=record.nas_id,
        nas_address=host_address(record.nas_address),
        # Prefer the identifier and address that the NAS reports, because its source address may change behind NAT. The
        # key does not contain the id of the registered NAS, because the NAS may be registered later.
        nas_key=shorten_key(f"{identifier}|{stated}") if identifier or stated else record.nas_address,
        status_type=get("Acct-Status-Type", ""),
        session_id=shorten_key(session_id),
        mac=mac,
        # Without session id and MAC address, only the user name and the NAS port distinguish the sessions of a NAS.
        mac_key=mac or shorten_key(station if station or session_id or not (name or port) else f"{name}|{port}"),
        identity=name,
        nas_port=port,
        framed_ip=host_address(get("Framed-IP-Address", "")),
        framed_ipv6=_join_framed_ipv6(
            get("Framed-IPv6-Address", ""), get("Framed-IPv6-Prefix", ""), get("Framed-Interface-Id", "")
        ),
        framed_prefix=normalise_ipv6_prefix(get("Framed-IPv6-Prefix", "")),
        delegated_prefix=normalise_ipv6_prefix(get("Delegated-IPv6-Prefix", "")),
        class_=next((value for name, value in record.attributes if name == "Class" and parse_decided_at(value)), ""),
        cui=_decode_text(get("Chargeable-User-Identity", ""))[:MAX_KEY_CHARACTERS],
        event_at=event_at,
        session_seconds=session_seconds,
        input_octets=_join_octets(get("Acct-Input-Octets", ""), get("Acct-Input-Gigawords", "")),
        output_octets=_join_octets(get("Acct-Output-Octets", ""), get("Acct-Output-Gigawords", "")),
        terminate_cause=get("Acct-Terminate-Cause", ""),
        faults=_find_faults(record, values, is_impossible or (lasted != "" and session_seconds is None)),
    )


def _find_faults(record: AccountingRecord, values: dict[str, str], is_impossible: bool) -> tuple[str, ...]:
    faults: tuple[str, ...] = (IMPOSSIBLE_TIME,) if is_impossible else ()
    if not values.get("Acct-Session-Id"):
        faults += (SESSION_ID_MISSING,)
    elif len(values) < len(record.attributes) and sum(name == "Acct-Session-Id" for name, _ in record.attributes) > 1:
        faults += (SESSION_ID_REPEATED,)
    return (*faults, UNREADABLE_TEXT) if record.unreadable else faults


def shorten_key(text: str) -> str:
    """Shorten a text for a key.

    A shortened key ends with a digest of the text, so different texts have different keys.
    """
    if len(text) <= MAX_KEY_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{text[: MAX_KEY_CHARACTERS - _DIGEST_CHARACTERS - 1]}~{digest}"


def _decode_text(octets: str) -> str:
    """Decode a value that radiusd prints as 0x...; return the value unchanged if it is not text."""
    try:
        text = bytes.fromhex(octets.removeprefix("0x")).decode()
    except ValueError:
        return octets
    return text if text.isprintable() else octets


@lru_cache(maxsize=4_096)
def normalise_ipv6_prefix(text: str) -> str:
    """Set the bits after the prefix length to zero (RFC 3162 2.3, RFC 4818). Returns "" for an invalid prefix."""
    try:
        return str(IPv6Network(text, strict=False)) if "/" in text else ""
    except ValueError:
        return ""


def _join_framed_ipv6(address: str, prefix: str, interface: str) -> str:
    """Return Framed-IPv6-Address (RFC 6911 3.1), or join a 64-bit prefix and the interface id (RFC 3162 2.2)."""
    if address or not interface:
        return host_address(address)
    network = normalise_ipv6_prefix(prefix)
    if not network.endswith("/64"):
        return ""
    return host_address(f"{IPv6Network(network).network_address.exploded[:19]}:{interface}")


def _parse_number(text: str, limit: int) -> int | None:
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        return None
    number = int(text)
    return number if number <= limit else None


def _join_octets(low: str, gigawords: str) -> int | None:
    """Join the two 32-bit halves of a counter (RFC 2869 5.1, 5.2)."""
    octets = _parse_number(low, 0xFFFFFFFF)
    if not gigawords:
        return octets
    high = _parse_number(gigawords, 0xFFFFFFFF)
    if octets is None and high is None:
        return None
    return min(((high or 0) << 32) + (octets or 0), _INT8_MAX)


def _find_event_time(at: int, delay: str, stamp: str) -> tuple[int, bool]:
    """Return the time of the event, and whether the NAS sent an impossible time.

    Prefers Acct-Delay-Time to Event-Timestamp, because a delay needs no correct clock.
    """
    seconds = _parse_number(delay, MAX_DELAY_SECONDS)
    if seconds:
        return at - seconds * _SECOND, False
    is_impossible = delay != "" and seconds is None
    if stamp and seconds is None:
        happened = parse_event_timestamp(stamp)
        if happened is not None:
            happened *= _SECOND
            if at - MAX_EVENT_AGE_SECONDS * _SECOND <= happened <= at + MAX_EVENT_AHEAD_SECONDS * _SECOND:
                # If the NAS sent a time after the arrival of the packet, use the time of arrival. Otherwise, a session
                # could seem to end after the next session has begun.
                return min(happened, at), is_impossible
        is_impossible = True
    return at, is_impossible


_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}


@lru_cache(maxsize=1_024)
def parse_event_timestamp(text: str) -> int | None:
    """Convert an Event-Timestamp to epoch seconds.

    radiusd prints the timestamp as a date, such as "Nov 21 2026 03:01:02 UTC", or as a number of seconds.
    """
    if text.isdecimal() and text.isascii() and len(text) <= 10:
        return int(text)
    parts = text.split()
    if len(parts) != 5 or parts[0] not in _MONTHS:
        return None
    try:
        hour, minute, second = (int(part) for part in parts[3].split(":"))
        moment = (int(parts[2]), _MONTHS[parts[0]], int(parts[1]), hour, minute, second, 0, 0, -1)
        if parts[4] in ("UTC", "GMT"):
            return calendar.timegm(moment)
        # radiusd prints local time, and the agent has the same time zone.
        return int(time.mktime(moment)) if parts[4] in time.tzname else None
    except (ValueError, OverflowError):
        return None


ACCOUNTING_TABLE = """
CREATE TEMPORARY TABLE shipped_accounting (
    id bigint, at bigint, tenant_id uuid, site_id uuid, nas_id uuid, nas_address inet, status_type text,
    session_id text, mac macaddr, identity text, session_seconds bigint, input_octets bigint, output_octets bigint,
    terminate_cause text, attributes json
) ON COMMIT DELETE ROWS
"""
ACCOUNTING_COPY = "COPY shipped_accounting FROM STDIN (NULL '')"
ACCOUNTING_INSERT = """
INSERT INTO accounting_log (
    id, at, cell_id, tenant_id, site_id, nas_id, nas_address, status_type, session_id, mac, identity, session_seconds,
    input_octets, output_octets, terminate_cause, attributes
)
SELECT
    coalesce(id, nextval('accounting_log_id_seq')), to_timestamp(at::float8 / 1e6), %s, tenant_id, site_id, nas_id,
    nas_address, coalesce(status_type, ''), coalesce(session_id, ''), mac, coalesce(identity, ''), session_seconds,
    input_octets, output_octets, coalesce(terminate_cause, ''), attributes
FROM shipped_accounting
"""


def accounting_line(record: AccountingRecord, usage: ParsedAccounting) -> str:
    return copy_line(
        str(usage.at),
        usage.tenant_id,
        usage.site_id,
        usage.nas_id,
        usage.nas_address,
        usage.status_type,
        usage.session_id,
        usage.mac,
        usage.identity,
        format_optional_number(usage.session_seconds),
        format_optional_number(usage.input_octets),
        format_optional_number(usage.output_octets),
        usage.terminate_cause,
        encode_json(record.attributes),
    )


def accounting_record(record: AccountingRecord, usage: ParsedAccounting) -> AccountingRequest:
    """Build the accounting record of a live event.

    `usage` has the values of the record itself, without values from its session.
    """
    return AccountingRequest(
        usage.at,
        usage.site_id,
        usage.nas_id,
        usage.nas_address,
        usage.status_type,
        usage.session_id,
        usage.mac,
        usage.identity,
        usage.session_seconds,
        usage.input_octets,
        usage.output_octets,
        usage.terminate_cause,
        record.attributes,
    )


def format_optional_number(number: int | None) -> str:
    return "" if number is None else str(number)
