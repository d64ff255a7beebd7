"""Timeline of a device: decisions, sessions, changes, certificates and evidence in one list, newest first.

Each source returns its newest events before the cursor, and the key to which the source is complete. The list contains
only events to which all sources are complete.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from nac.certificates import service as certificates
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.audit.repository import AuditEntryFilter
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.service import EndpointNotFound
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.permissions import Permission
from nac.kit.validation import require_mac
from nac.models import AuditEntry, Certificate, EndpointEvidence
from nac.sessions import service as sessions
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import LoggedDecision
from nac.sessions.repository import SessionKey
from nac.sessions.service import SessionView

TimelineKind = Literal["decision", "session", "change", "certificate", "evidence"]
KIND_PERMISSIONS: Mapping[TimelineKind, Permission] = {
    "decision": Permission.LOG_READ,
    "session": Permission.SESSION_READ,
    "change": Permission.AUDIT_READ,
    "certificate": Permission.CERTIFICATE_READ,
    "evidence": Permission.ENDPOINT_READ,
}
SessionEvent = Literal["started", "ended"]
CertificateEvent = Literal["issued", "revoked", "suspended", "expiring", "expired"]
# Repeated decisions become one item, so a page needs more rows than items.
_MIN_DECISIONS = 500
# A device has few live sessions, and few sessions at the same time.
_MAX_CONCURRENT_SESSIONS = 100
# Of one device. A page reads no older certificates.
_MAX_CERTIFICATES = 200
_EXPIRING = timedelta(days=30)
_MAX_NUMBER = 2**63 - 1
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
_ACTIONS = {
    "add": "added the device",
    "set": "changed the device",
    "remove": "deleted the device",
    "set-groups": "changed the groups of the device",
    "set-psk": "changed the passphrase of the device",
    "set-posture": "changed the posture of the device",
    "block": "blocked the device",
    "unblock": "unblocked the device",
    "approve": "approved the device",
    "ignore": "ignored the device",
}


class TimelineKey(NamedTuple):
    """Place in the timeline. Keys descend in the list."""

    at: datetime
    # Number of the source, for events of the same time.
    source: int
    number: int

    @property
    def is_valid(self) -> bool:
        return _DECISION <= self.source <= _EVIDENCE and 0 <= self.number <= _MAX_NUMBER


# Sources in the order of keys.
_DECISION, _SESSION_END, _SESSION_START, _CHANGE, _CERTIFICATE, _EVIDENCE = range(6)
START = TimelineKey(_FOREVER, _EVIDENCE, _MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class DecisionItem:
    """Adjacent decisions with the same result at the same port."""

    # The newest.
    newest: LoggedDecision
    count: int
    first_at: datetime

    @property
    def last_at(self) -> datetime:
        return self.newest.log.at


@dataclass(frozen=True, slots=True)
class SessionItem:
    event: SessionEvent
    session: SessionView


@dataclass(frozen=True, slots=True)
class CertificateItem:
    event: CertificateEvent
    certificate: Certificate


TimelineContent = DecisionItem | SessionItem | AuditEntry | CertificateItem | EndpointEvidence


class TimelineItem(NamedTuple):
    key: TimelineKey
    content: TimelineContent


class _Events(NamedTuple):
    items: Sequence[TimelineItem]
    # The source has no unread events after this key. None: the source has no further events.
    complete_to: TimelineKey | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    session: Session
    tenant_id: TenantId
    # 12 hexadecimal digits.
    mac: str
    before: TimelineKey
    since: datetime | None
    limit: int

    def before_in(self, source: int) -> tuple[datetime, int] | None:
        """Return the key of the source before which its events are. None at the start of the list."""
        if self.before == START:
            return None
        at, of, number = self.before
        if source == of:
            return at, number
        return at, _MAX_NUMBER if source < of else 0


class TimelinePage(NamedTuple):
    items: Sequence[TimelineItem]
    # Key at which the next page continues. None at the end.
    next: TimelineKey | None


def list_timeline(
    session: Session,
    *,
    tenant_id: TenantId,
    mac: str,
    kinds: Collection[TimelineKind],
    before: TimelineKey | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
) -> TimelinePage:
    """List events of a device from before `until` back to `since`, newest first. The device may be unregistered.

    `mac` is in any notation. A page can have fewer items than `limit`, and still have a next page.
    """
    first = min(before or START, TimelineKey(until, _DECISION, 0) if until else START)
    request = _Request(session, tenant_id, require_mac(mac), first, since, limit)
    found = [_SOURCES[kind](request) for kind in KIND_PERMISSIONS if kind in kinds]
    horizon = max((each.complete_to for each in found if each.complete_to), default=None)
    events = sorted(
        (
            item
            for each in found
            for item in each.items
            if item.key < first and (horizon is None or item.key >= horizon) and (since is None or item.key.at >= since)
        ),
        key=lambda item: item.key,
        reverse=True,
    )
    items: list[TimelineItem] = []
    last = None
    for event in events:
        folded = _fold(items[-1], event) if items else None
        if folded:
            items[-1] = folded
        elif len(items) == limit:
            return TimelinePage(items, last)
        else:
            items.append(event)
        last = event.key
    return TimelinePage(items, horizon)


def _fold(newer: TimelineItem, older: TimelineItem) -> TimelineItem | None:
    """Return one item for two adjacent decisions with the same result at the same port, otherwise None."""
    one, other = newer.content, older.content
    if not isinstance(one, DecisionItem) or not isinstance(other, DecisionItem):
        return None
    if _result_of(one.newest) != _result_of(other.newest):
        return None
    return newer._replace(content=DecisionItem(one.newest, one.count + other.count, other.first_at))


def _result_of(decision: LoggedDecision) -> tuple[object, ...]:
    return decision.log.permitted, decision.verdict, decision.log.reason, decision.nas, decision.log.nas_port


def _read_decisions(request: _Request) -> _Events:
    found = decisions.search_decisions(
        request.session,
        tenant_id=request.tenant_id,
        mac=request.mac,
        before=request.before_in(_DECISION),
        until=request.since,
        limit=max(request.limit, _MIN_DECISIONS),
    )
    items = [
        TimelineItem(
            TimelineKey(each.log.at, _DECISION, each.log.id),
            # A cell counts rejects that it does not log.
            DecisionItem(each, 1 + each.log.suppressed, each.log.at),
        )
        for each in found.rows
    ]
    return _Events(items, TimelineKey(found.next[0], _DECISION, found.next[1]) if found.next else None)


def _read_sessions(request: _Request) -> _Events:
    given: dict[str, Any] = {"tenant_id": request.tenant_id, "mac": request.mac}
    live = sessions.list_sessions(request.session, **given, limit=_MAX_CONCURRENT_SESSIONS)
    at, number = request.before_in(_SESSION_END) or (_FOREVER, _MAX_NUMBER)
    limit = request.limit + 1
    ended = sessions.list_sessions(
        request.session, **given, since=request.since, ended=True, after=SessionKey("ended", at, number), limit=limit
    )
    # Sessions that started before the cursor, but ended after it.
    later = (
        sessions.list_sessions(
            request.session,
            **given,
            ended=True,
            after=SessionKey("ended", at, number - 1),
            limit=_MAX_CONCURRENT_SESSIONS,
            oldest_first=True,
        )
        if request.before < START
        else ()
    )
    items = [
        TimelineItem(TimelineKey(each.row.started_at, _SESSION_START, each.row.id), SessionItem("started", each))
        for each in {each.row.id: each for each in (*live, *ended, *later)}.values()
    ]
    ends = [
        TimelineItem(TimelineKey(each.row.stopped_at, _SESSION_END, each.row.id), SessionItem("ended", each))
        for each in ended
        if each.row.stopped_at is not None
    ]
    return _Events(items + ends, ends[-1].key if len(ended) == limit else None)


def _read_changes(request: _Request) -> _Events:
    found = audit.search_entries(
        request.session,
        owner=Owner(tenant_id=request.tenant_id),
        wanted=AuditEntryFilter(target=display_mac(request.mac), since=request.since),
        span=PageSpan(audit.ORDERS["-at"], request.limit + 1, request.before_in(_CHANGE)),
    )
    items = [TimelineItem(TimelineKey(each.at, _CHANGE, each.id), each) for each in found.rows]
    return _Events(items, items[-1].key if len(items) > request.limit else None)


def _read_certificates(request: _Request) -> _Events:
    try:
        endpoint = endpoints.require_by_mac(request.session, tenant_id=request.tenant_id, mac=request.mac)
    except EndpointNotFound:
        return _Events(())
    found = certificates.search_certificates(
        request.session,
        tenant_id=request.tenant_id,
        which=Certificate.endpoint_id == endpoint.id,
        span=PageSpan(certificates.ORDERS["-not_before"], _MAX_CERTIFICATES, None),
    )
    now = utc_now()
    return _Events(
        [
            TimelineItem(
                TimelineKey(at, _CERTIFICATE, int.from_bytes(each.serial[-7:]) * len(_CERTIFICATE_EVENTS) + number),
                CertificateItem(event, each),
            )
            for each in found.rows
            for number, (event, at) in enumerate(_list_certificate_events(each, now))
        ]
    )


_CERTIFICATE_EVENTS = ("issued", "revoked", "suspended", "expiring", "expired")


def _list_certificate_events(row: Certificate, now: datetime) -> Iterator[tuple[CertificateEvent, datetime]]:
    if row.status not in ("valid", "suspended", "revoked"):
        return
    yield "issued", row.created_at
    if row.revoked_at is not None:
        yield "suspended" if row.status == "suspended" else "revoked", row.revoked_at
    if row.status == "valid":
        expiring = max(row.not_after - _EXPIRING, row.created_at)
        if expiring <= now:
            yield "expiring", expiring
        if row.not_after <= now:
            yield "expired", row.not_after


def _read_evidence(request: _Request) -> _Events:
    found = endpoints.list_evidence(request.session, tenant_id=request.tenant_id, mac=request.mac)
    ordered = sorted(found, key=lambda each: (each.source, each.key))
    return _Events([TimelineItem(TimelineKey(each.at, _EVIDENCE, n), each) for n, each in enumerate(ordered)])


_SOURCES: Mapping[TimelineKind, Callable[[_Request], _Events]] = {
    "decision": _read_decisions,
    "session": _read_sessions,
    "change": _read_changes,
    "certificate": _read_certificates,
    "evidence": _read_evidence,
}


def describe_item(content: TimelineContent) -> tuple[str, str]:
    """Return title and detail of an item, for people."""
    match content:
        case DecisionItem():
            return _describe_decision(content)
        case SessionItem():
            return _describe_session(content)
        case AuditEntry():
            noun, _, verb = content.action.partition(".")
            done = _ACTIONS.get(verb, "") if noun == "endpoint" else ""
            actor = content.actor.partition(":")[2] or content.actor
            changed = [each.name for each in audit.list_differences(content.before, content.after)]
            return f"{actor} {done or f'did {content.action}'}.", ", ".join(changed)
        case CertificateItem():
            return _describe_certificate(content)
        case _:
            return f"The device has a new value of {content.source} {content.key}.", content.value


def _describe_decision(item: DecisionItem) -> tuple[str, str]:
    newest = item.newest
    if not newest.log.permitted:
        result = "rejected"
    else:
        result = "admitted with restrictions" if newest.verdict == "quarantine" else "admitted"
    place = f" at {newest.nas}" if newest.nas else ""
    port = f", port {newest.log.nas_port}" if newest.log.nas_port else ""
    times = f" {item.count} times" if item.count > 1 else ""
    return f"Admit {result} the device{place}{port}{times}: {newest.reason.title}.", newest.log.detail


def _describe_session(item: SessionItem) -> tuple[str, str]:
    row = item.session.row
    place = f" at {item.session.nas}" if item.session.nas else ""
    if item.event == "started":
        return f"A session started{place}.", f"User {row.identity}" if row.identity else ""
    usage = f"{item.session.seconds} s, {row.input_octets or 0} octets received, {row.output_octets or 0} octets sent"
    return f"A session ended{place}.", ", ".join(filter(None, (usage, row.terminate_cause)))


def _describe_certificate(item: CertificateItem) -> tuple[str, str]:
    row = item.certificate
    name, end = row.common_name or row.serial.hex(), f"{row.not_after:%Y-%m-%d}"
    titles: Mapping[CertificateEvent, str] = {
        "issued": f"Admit issued the certificate {name}, valid until {end}.",
        "revoked": f"The certificate {name} was revoked.",
        "suspended": f"The certificate {name} was suspended.",
        "expiring": f"The certificate {name} expires on {end}.",
        "expired": f"The certificate {name} expired.",
    }
    return titles[item.event], row.revocation_reason if item.event in ("revoked", "suspended") else ""
