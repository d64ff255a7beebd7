"""Operations on many endpoints by address. Each applies to all of them or to none."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.bulk_rows import (
    InputLine,
    ProgressCallback,
    RowMistake,
    RowReader,
    ignore_progress,
    require_no_mistakes,
    split_progress,
)
from nac.certificates.leftovers import holders_with_some_left
from nac.coa_requests import queueing
from nac.endpoints import repository, work
from nac.groups import ENDPOINT_GROUPS
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint
from nac.models.endpoint import EndpointStatus
from nac.validation import require_mac

_REVOKE = "./admit cert revoke --all-of-endpoint MAC"
_CLASSIFY = "Classify it: ./admit endpoint classify."
_LISTED = "Remove it. List endpoints: ./admit endpoint list."
# Endpoints between two progress reports.
_AT_ONCE = 1_000
Grouping = Literal["set-groups", "join-groups", "leave-groups"]


def remove(
    session: Session, *, actor: str, tenant_id: TenantId, macs: Iterable[str], tell: ProgressCallback = ignore_progress
) -> int:
    """Delete endpoints; return their number. Raises RowsRefused, also for endpoints with valid certificates."""
    reader = RowReader()
    found = _locked(session, tenant_id, macs, reader)
    left = holders_with_some_left(session, tenant_id=tenant_id, endpoint_ids=[each.id for _, each in found])
    for line, endpoint in found:
        if endpoint.id in left:
            mac = display_mac(endpoint.mac)
            reader.wrong(line, "", f"Endpoint {mac} has valid certificates.", f"Revoke them first: {_REVOKE}.")
    require_no_mistakes(reader.mistakes, place=_place)
    entries = [
        _entry(actor, endpoint, "remove", before={"name": endpoint.name, "status": endpoint.status})
        for _, endpoint in found
    ]
    tell_gone, tell_noted = split_progress(tell, len(found))
    gone = [endpoint.mac for _, endpoint in found]
    for start in range(0, len(gone), _AT_ONCE):
        part = gone[start : start + _AT_ONCE]
        repository.delete_many(session, tenant_id, part)
        tell_gone(start + len(part))
    audit.append_in_parts(session, entries, tell_noted)
    return len(found)


def block(
    session: Session, *, actor: str, tenant_id: TenantId, macs: Iterable[str], tell: ProgressCallback = ignore_progress
) -> int:
    """Block endpoints and end their live sessions (RFC 5176). Return how many were not blocked before. Raises
    RowsRefused.
    """
    reader = RowReader()
    found = _locked(session, tenant_id, macs, reader)
    require_no_mistakes(reader.mistakes, place=_place)
    changed = _set_status(session, actor, [endpoint for _, endpoint in found], "blocked", "block", tell)
    queueing.queue_blocks(session, tenant_id=tenant_id, macs=[each.mac for _, each in found], asked_by=actor)
    return changed


def unblock(
    session: Session, *, actor: str, tenant_id: TenantId, macs: Iterable[str], tell: ProgressCallback = ignore_progress
) -> int:
    """Unblock endpoints; return how many were blocked. Raises RowsRefused, also for unapproved ones."""
    reader = RowReader()
    found = _locked(session, tenant_id, macs, reader)
    for line, endpoint in found:
        if endpoint.status not in ("active", "blocked"):
            reader.wrong(line, "", f"{display_mac(endpoint.mac)} is {endpoint.status}, not blocked.", _CLASSIFY)
    require_no_mistakes(reader.mistakes, place=_place)
    changed = _set_status(session, actor, [endpoint for _, endpoint in found], "active", "unblock", tell)
    queueing.withdraw_blocks(session, tenant_id=tenant_id, macs=[each.mac for _, each in found])
    return changed


def group(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    macs: Iterable[str],
    groups: Sequence[str],
    how: Grouping,
    tell: ProgressCallback = ignore_progress,
) -> int:
    """Change the groups of endpoints, except groups by rule. Return how many endpoints changed.

    Raises RowsRefused, UnknownGroup and GroupByRule.
    """
    reader = RowReader()
    found = _locked(session, tenant_id, macs, reader)
    require_no_mistakes(reader.mistakes, place=_place)
    ids = [endpoint.id for _, endpoint in found]
    before = _groups_of(session, tenant_id, found)
    if how == "set-groups":
        ENDPOINT_GROUPS.keep(session, tenant_id=tenant_id, names=groups)
        ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=ids)
    if how == "leave-groups":
        ENDPOINT_GROUPS.leave(session, tenant_id=tenant_id, member_ids=ids, names=groups)
    else:
        ENDPOINT_GROUPS.join(session, tenant_id=tenant_id, member_ids=ids, names=groups)
    after = _groups_of(session, tenant_id, found)
    entries = [
        _entry(
            actor,
            endpoint,
            "set-groups",
            before={"groups": before.get(endpoint.mac, ())},
            after={"groups": after.get(endpoint.mac, ())},
        )
        for _, endpoint in found
        if before.get(endpoint.mac) != after.get(endpoint.mac)
    ]
    tell_moved, tell_noted = split_progress(tell, len(found))
    tell_moved(len(found))
    audit.append_in_parts(session, entries, tell_noted)
    return len(entries)


def _locked(
    session: Session, tenant_id: TenantId, macs: Iterable[str], reader: RowReader
) -> list[tuple[InputLine, Endpoint]]:
    lines: dict[str, InputLine] = {}
    for number, text in enumerate(macs, start=1):
        line = InputLine(number, {})
        with reader.noted(line):
            lines.setdefault(require_mac(text), line)
    work.hold(session, tenant_id=tenant_id)
    known = repository.lock_macs(session, tenant_id, sorted(lines))
    for mac, line in lines.items():
        if mac not in known:
            reader.wrong(line, "", f"Endpoint {display_mac(mac)} does not exist.", _LISTED)
    return [(line, known[mac]) for mac, line in lines.items() if mac in known]


def _set_status(
    session: Session, actor: str, found: Sequence[Endpoint], to: EndpointStatus, verb: str, tell: ProgressCallback
) -> int:
    entries = []
    tell_set, tell_noted = split_progress(tell, len(found))
    for number, endpoint in enumerate(found, start=1):
        if endpoint.status != to:
            entries.append(_entry(actor, endpoint, verb, before={"status": endpoint.status}, after={"status": to}))
            endpoint.status = to
        if number % _AT_ONCE == 0 or number == len(found):
            session.flush()
            tell_set(number)
    audit.append_in_parts(session, entries, tell_noted)
    return len(entries)


def _groups_of(
    session: Session, tenant_id: TenantId, found: Sequence[tuple[InputLine, Endpoint]]
) -> dict[str, tuple[str, ...]]:
    ids = [endpoint.id for _, endpoint in found]
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids, by_rule=False)
    return {endpoint.mac: names[endpoint.id] for _, endpoint in found if endpoint.id in names}


def _entry(
    actor: str, endpoint: Endpoint, verb: str, *, before: Mapping[str, Any], after: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": f"endpoint.{verb}",
        "target": display_mac(endpoint.mac),
        "tenant_id": endpoint.tenant_id,
        "before": dict(before),
        "after": dict(after or {}),
    }


def _place(mistake: RowMistake) -> str:
    return f"macs[{mistake.number - 1}]"
