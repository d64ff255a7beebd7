"""Search across tenants: devices, users, NASes, live sessions, certificates and decisions, by one text.

PostgreSQL functions read the tenants, because row-level security permits only one tenant to other queries. The
functions drop all tenants that the scope of the transaction cannot read.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ARRAY, DateTime, Integer, LargeBinary, Text, TextClause, bindparam, text
from sqlalchemy.orm import Session

from nac.engine.reasons import Reason, get_reason
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac, normalise_mac
from nac.kit.permissions import Permission
from nac.sessions.decisions.recorded_requests import to_microseconds

SearchKind = Literal["endpoint", "user", "nas", "session", "certificate", "decision"]
# Permission for each kind, in the order of equally good hits.
KIND_PERMISSIONS: Mapping[SearchKind, Permission] = {
    "endpoint": Permission.ENDPOINT_READ,
    "user": Permission.USER_READ,
    "certificate": Permission.CERTIFICATE_READ,
    "session": Permission.SESSION_READ,
    "nas": Permission.NAS_READ,
    "decision": Permission.LOG_READ,
}
_KIND_ORDER = {kind: number for number, kind in enumerate(KIND_PERMISSIONS)}
MIN_CHARACTERS = 2
# Trigrams find no shorter part of a name.
_MIN_NAME_PART = 3
_MIN_MAC_DIGITS, _MAC_DIGITS = 4, 12
# RFC 5280 4.1.2.2: at most 20 octets.
_MIN_SERIAL_DIGITS, _MAX_SERIAL_DIGITS = 6, 40
# Period of the authentication log that the search reads.
LOG_DAYS = 14
# Number of tenants and days whose logs the search reads for a MAC address without a sighting, and minimum of days.
_MAX_TENANT_DAYS, _MIN_LOG_DAYS = 3_000, 2
_CLOCK_ERROR = timedelta(days=1)
# Complete or partial addresses: 0011.2233, 00-11-22, 00:11:2, 001122-3344 and 001122.
_MAC = re.compile(r"(?:[0-9a-f]{2}[:-])*[0-9a-f]{1,2}|(?:[0-9a-f]{4}\.)*[0-9a-f]{1,4}|[0-9a-f]{6}-[0-9a-f]{1,6}|[0-9a-f]+")
_SERIAL = re.compile(r"(?:[0-9a-f]{2}:)*[0-9a-f]{1,2}|[0-9a-f]+")
_ENDPOINT_WORDS = {
    "active": "Approved device",
    "blocked": "Blocked device",
    "discovered": "Device that is not approved",
    "ignored": "Ignored device",
}
_TYPES: Mapping[str, Any] = {
    # A literal. SQLAlchemy would take longer to send 1,000 ids than PostgreSQL to search.
    "tenants": Text(),
    "wanted": Text(),
    "pattern": Text(),
    "first": Text(),
    "last": Text(),
    "since": DateTime(timezone=True),
    "log_since": DateTime(timezone=True),
    "until": DateTime(timezone=True),
    "most": Integer(),
}


def _build_statement(sql: str, **types: Any) -> TextClause:  # noqa: ANN401 -- types of SQLAlchemy
    return text(sql).bindparams(
        *(bindparam(name, type_=each) for name, each in (_TYPES | types).items() if re.search(rf":{name}\b", sql))
    )


_ENDPOINTS = _build_statement(
    "SELECT * FROM search_endpoints(cast(:tenants AS uuid[]), cast(:first AS macaddr), cast(:last AS macaddr), :wanted, :pattern, :most)"
)
_USERS = _build_statement("SELECT * FROM search_users(cast(:tenants AS uuid[]), :wanted, :most)")
_NASES = _build_statement("SELECT * FROM search_nases(cast(:tenants AS uuid[]), :wanted, cast(:address AS inet), :most)", address=Text())
_SESSIONS = _build_statement("SELECT * FROM search_sessions(cast(:tenants AS uuid[]), cast(:address AS inet), :most)", address=Text())
_CERTIFICATES = _build_statement(
    "SELECT * FROM search_certificates(cast(:tenants AS uuid[]), :first, :last, :wanted, :most)",
    first=LargeBinary(),
    last=LargeBinary(),
)
_LOG_MAC = _build_statement(
    "SELECT * FROM search_log_mac(cast(:tenants AS uuid[]), cast(:first AS macaddr), :since, :log_since, "
    ":until, :most)"
)
_LAST_DECISIONS = _build_statement(
    "SELECT * FROM last_decisions(cast(:tenants AS uuid[]), cast(:macs AS macaddr[]), :identities, :serials, :since, :until)",
    macs=ARRAY(Text()),
    identities=ARRAY(Text()),
    serials=ARRAY(Text()),
)


@dataclass(frozen=True, slots=True)
class LastDecision:
    # Id of the decision in the authentication log.
    id: str
    at: datetime
    permitted: bool
    # permit, quarantine or deny.
    verdict: str
    reason: Reason
    # Name of the NAS, or identifier or address of an unregistered NAS.
    nas: str
    vlan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    kind: SearchKind
    tenant_id: TenantId
    title: str
    detail: str
    # Whether a whole name, address or number equals the text.
    is_exact: bool = True
    # Time by which equally good hits are sorted; None if unknown.
    at: datetime | None = None
    # With colons.
    mac: str | None = None
    user: str | None = None
    nas: str | None = None
    # Hexadecimal.
    serial: str | None = None
    session: int | None = None
    last_decision: LastDecision | None = None

    @property
    def order(self) -> tuple[bool, float, int]:
        """Return the sort key: exact hits first, then the most recent."""
        moments = [each for each in (self.at, self.last_decision and self.last_decision.at) if each]
        return not self.is_exact, -max((each.timestamp() for each in moments), default=0.0), _KIND_ORDER[self.kind]


@dataclass(frozen=True, slots=True)
class SearchText:
    """The text of a search, and the values that it can stand for. A value is None if the text cannot stand for it."""

    text: str
    address: str | None = None
    # First and last MAC address. Both are equal for a complete address.
    macs: tuple[str, str] | None = None
    # First and last serial number.
    serials: tuple[bytes, bytes] | None = None

    @classmethod
    def parse(cls, words: str) -> "SearchText":
        words = words.strip()
        try:
            return cls(words, address=str(ipaddress.ip_address(words)))
        except ValueError:
            pass
        lower = words.lower()
        return cls(words, macs=_parse_macs(lower), serials=_parse_serials(lower))

    @property
    def mac(self) -> str | None:
        """Return the MAC address if the text is a complete address."""
        return self.macs[0] if self.macs and self.macs[0] == self.macs[1] else None


def _parse_macs(words: str) -> tuple[str, str] | None:
    digits = normalise_mac(words) or re.sub(r"[:.-]", "", words)
    if not (normalise_mac(words) or _MAC.fullmatch(words)) or not _MAC.fullmatch(words) or not _MIN_MAC_DIGITS <= len(digits) <= _MAC_DIGITS:
        return None
    return digits.ljust(_MAC_DIGITS, "0"), digits.ljust(_MAC_DIGITS, "f")


def _parse_serials(words: str) -> tuple[bytes, bytes] | None:
    digits = words.replace(":", "")
    if not _SERIAL.fullmatch(words) or not _MIN_SERIAL_DIGITS <= len(digits) <= _MAX_SERIAL_DIGITS:
        return None
    first = digits if len(digits) % 2 == 0 else f"{digits}0"
    return bytes.fromhex(first), bytes.fromhex(digits.ljust(_MAX_SERIAL_DIGITS, "f"))


def find_hits(
    session: Session, kind: SearchKind, wanted: SearchText, *, tenant_ids: Collection[TenantId], limit: int
) -> list[SearchHit]:
    """Find the best hits of a kind in the tenants, at most `limit`. `add_decisions` finds decisions."""
    finder = _FINDERS.get(kind)
    return finder(session, wanted, {"tenants": _format_ids(tenant_ids), "most": limit}) if finder and tenant_ids else []


def _find_endpoints(session: Session, wanted: SearchText, given: dict[str, Any]) -> list[SearchHit]:
    is_name = len(wanted.text) >= _MIN_NAME_PART and not wanted.address
    if not is_name and not wanted.macs:
        return []
    given["first"], given["last"] = wanted.macs or (None, None)
    given["wanted"] = wanted.text if is_name else None
    given["pattern"] = "%" + re.sub(r"([\\%_])", r"\\\1", wanted.text) + "%" if is_name else None
    return [
        SearchHit(
            kind="endpoint",
            tenant_id=row.tenant_id,
            title=row.name or row.mac,
            detail=_build_detail(
                f"{_ENDPOINT_WORDS[row.status]} {row.mac}", profile=row.profile, vendor=row.vendor, owner=row.owner
            ),
            is_exact=row.is_exact,
            at=row.seen_at,
            mac=row.mac,
        )
        for row in session.execute(_ENDPOINTS, given)
    ]


def _find_users(session: Session, wanted: SearchText, given: dict[str, Any]) -> list[SearchHit]:
    return [
        SearchHit(
            kind="user",
            tenant_id=row.tenant_id,
            title=row.name,
            detail="Disabled user" if row.disabled else "User",
            is_exact=row.is_exact,
            user=row.name,
        )
        for row in session.execute(_USERS, given | {"wanted": wanted.text})
    ]


def _find_nases(session: Session, wanted: SearchText, given: dict[str, Any]) -> list[SearchHit]:
    return [
        SearchHit(
            kind="nas",
            tenant_id=row.tenant_id,
            title=row.name,
            detail=_build_detail("NAS", site=row.site, identifier=row.identifier, address=row.address),
            is_exact=row.is_exact,
            nas=row.name,
        )
        for row in session.execute(_NASES, given | {"wanted": wanted.text, "address": wanted.address})
    ]


def _find_sessions(session: Session, wanted: SearchText, given: dict[str, Any]) -> list[SearchHit]:
    if not wanted.address:
        return []
    hits = []
    for row in session.execute(_SESSIONS, given | {"address": wanted.address}):
        identifier, _, source = row.nas_key.partition("|")
        nas = row.nas or identifier or source
        hits.append(
            SearchHit(
                kind="session",
                tenant_id=row.tenant_id,
                title=row.identity or row.mac or wanted.address,
                detail=_build_detail(f"Live session with {wanted.address}", device=row.mac, NAS=nas, port=row.nas_port),
                at=row.started_at,
                mac=row.mac,
                user=row.identity or None,
                nas=nas or None,
                session=row.id,
            )
        )
    return hits


def _find_certificates(session: Session, wanted: SearchText, given: dict[str, Any]) -> list[SearchHit]:
    first, last = wanted.serials or (None, None)
    now = utc_now()
    return [
        SearchHit(
            kind="certificate",
            tenant_id=row.tenant_id,
            title=row.name or row.serial,
            detail=_build_detail(
                f"{'Expired' if row.status == 'valid' and row.not_after <= now else row.status.capitalize()} certificate",
                profile=row.profile,
                serial=row.serial,
                end=f"{row.not_after:%Y-%m-%d}",
            ),
            is_exact=row.is_exact,
            at=row.not_before,
            serial=row.serial,
        )
        for row in session.execute(_CERTIFICATES, given | {"first": first, "last": last, "wanted": wanted.text})
    ]


_FINDERS: Mapping[SearchKind, Callable[[Session, SearchText, dict[str, Any]], list[SearchHit]]] = {
    "endpoint": _find_endpoints,
    "user": _find_users,
    "nas": _find_nases,
    "session": _find_sessions,
    "certificate": _find_certificates,
}


def add_decisions(
    session: Session,
    wanted: SearchText,
    hits: Sequence[SearchHit],
    *,
    tenant_ids: Collection[TenantId],
    limit: int,
) -> list[SearchHit]:
    """Return the best hits, at most `limit`, with the last decision in the authentication logs of these tenants.

    Adds a hit for each tenant whose log has the MAC address, but whose devices do not have this address.
    """
    now = utc_now()
    period = {"since": now - timedelta(days=LOG_DAYS), "until": now + _CLOCK_ERROR}
    found = list(hits)
    if wanted.mac:
        registered = {hit.tenant_id for hit in hits if hit.kind == "endpoint"}
        others = [each for each in tenant_ids if each not in registered]
        days = min(LOG_DAYS, max(_MIN_LOG_DAYS, _MAX_TENANT_DAYS // max(len(others), 1)))
        given = {
            "tenants": _format_ids(others),
            "first": wanted.mac,
            "log_since": now - timedelta(days=days),
            "most": limit,
        }
        found += [
            SearchHit(
                kind="decision",
                tenant_id=tenant_id,
                title=display_mac(wanted.mac),
                detail="Device in the authentication log",
                mac=display_mac(wanted.mac),
            )
            for tenant_id in session.scalars(_LOG_MAC, given | period)
        ]
    found = _add_last_decisions(session, found, set(tenant_ids), period)
    # A row can be deleted between the two queries.
    known = (hit for hit in found if hit.kind != "decision" or hit.last_decision)
    return sorted(known, key=lambda hit: hit.order)[:limit]


def _add_last_decisions(
    session: Session, hits: Sequence[SearchHit], tenant_ids: Collection[TenantId], period: Mapping[str, datetime]
) -> list[SearchHit]:
    places = [
        number
        for number, hit in enumerate(hits)
        if hit.kind in ("endpoint", "user", "certificate", "decision") and hit.tenant_id in tenant_ids
    ]
    if not places:
        return list(hits)
    asked = [hits[number] for number in places]
    given: dict[str, Any] = {
        "tenants": _format_ids(hit.tenant_id for hit in asked),
        "macs": [hit.mac for hit in asked],
        "identities": [hit.user and hit.user.lower() for hit in asked],
        "serials": [hit.serial for hit in asked],
    }
    result = list(hits)
    for row in session.execute(_LAST_DECISIONS, given | period):
        number = places[row.n - 1]
        last = LastDecision(
            id=f"{to_microseconds(row.at)}-{row.id}",
            at=row.at,
            permitted=row.permitted,
            verdict=row.verdict or ("permit" if row.permitted else "deny"),
            reason=get_reason(row.reason),
            nas=row.nas,
            vlan=row.vlan,
        )
        result[number] = replace(result[number], last_decision=last)
    return result


def _format_ids(tenant_ids: Iterable[TenantId]) -> str:
    return "{" + ",".join(map(str, tenant_ids)) + "}"


def _build_detail(first: str, **values: object) -> str:
    """Return a sentence such as "NAS, site main, address 192.0.2.20"."""
    return ", ".join([first, *(f"{name} {value}" for name, value in values.items() if value)])
