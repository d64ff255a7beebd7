"""Operations on many endpoints, identified by MAC address. Each operation changes all endpoints or no endpoint."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import enrichment, repository
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.inventory.holder_certificates import find_holders_with_certificates
from nac.kit.advice import Advice, NextStep
from nac.kit.bulk_rows import (
    InputLine,
    ProgressCallback,
    RowMistake,
    RowReader,
    ignore_progress,
    require_no_mistakes,
    split_progress,
)
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.validation import require_mac
from nac.models import Endpoint
from nac.models.endpoint import EndpointStatus
from nac.sessions.coa_requests import request_queue

_CLASSIFY_REMEDY = Advice("Classify the endpoint.", "classifyEndpoints")
_LIST_REMEDY = Advice("Remove the row. List endpoints.", "listEndpoints")
# Number of endpoints between two progress reports.
_BATCH_ROWS = 1_000
GroupingMode = Literal["set-groups", "join-groups", "leave-groups"]


def delete_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    macs: Iterable[str],
    report: ProgressCallback = ignore_progress,
) -> int:
    """Delete endpoints. Returns their number. Raises RowsRefused for unknown endpoints, and for endpoints with valid
    certificates."""
    reader = RowReader()
    found = _lock_endpoints(session, tenant_id, macs, reader)
    left = find_holders_with_certificates(session, tenant_id=tenant_id, endpoint_ids=[each.id for _, each in found])
    for line, endpoint in found:
        if endpoint.id in left:
            mac = display_mac(endpoint.mac)
            revocation = NextStep("revokeCertificatesOfHolder", {"endpoint": mac})
            remedy = Advice("Revoke the certificates first.", revocation)
            reader.wrong(line, "", f"Endpoint {mac} has valid certificates.", remedy)
    require_no_mistakes(reader.mistakes, place=_mistake_place)
    entries = [
        _audit_entry(actor, endpoint, "remove", before={"name": endpoint.name, "status": endpoint.status})
        for _, endpoint in found
    ]
    report_gone, report_noted = split_progress(report, len(found))
    gone = [endpoint.mac for _, endpoint in found]
    for start in range(0, len(gone), _BATCH_ROWS):
        part = gone[start : start + _BATCH_ROWS]
        repository.delete_endpoints(session, tenant_id, part)
        report_gone(start + len(part))
    audit.append_in_batches(session, entries, report_noted)
    return len(found)


def block_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    macs: Iterable[str],
    report: ProgressCallback = ignore_progress,
) -> int:
    """Block endpoints, and queue Disconnect-Requests (RFC 5176) for the live sessions of the endpoints.

    Returns the number of endpoints whose status changed. Raises RowsRefused for unknown endpoints.
    """
    reader = RowReader()
    found = _lock_endpoints(session, tenant_id, macs, reader)
    require_no_mistakes(reader.mistakes, place=_mistake_place)
    changed = _update_status(session, actor, [endpoint for _, endpoint in found], "blocked", "block", report)
    request_queue.queue_block_disconnects(
        session, tenant_id=tenant_id, macs=[each.mac for _, each in found], requested_by=actor
    )
    return changed


def unblock_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    macs: Iterable[str],
    report: ProgressCallback = ignore_progress,
) -> int:
    """Unblock endpoints. Returns the number of endpoints whose status changed.

    Raises RowsRefused for unknown, discovered and ignored endpoints.
    """
    reader = RowReader()
    found = _lock_endpoints(session, tenant_id, macs, reader)
    for line, endpoint in found:
        if endpoint.status not in ("active", "blocked"):
            reader.wrong(line, "", f"{display_mac(endpoint.mac)} is {endpoint.status}, not blocked.", _CLASSIFY_REMEDY)
    require_no_mistakes(reader.mistakes, place=_mistake_place)
    changed = _update_status(session, actor, [endpoint for _, endpoint in found], "active", "unblock", report)
    request_queue.withdraw_block_disconnects(session, tenant_id=tenant_id, macs=[each.mac for _, each in found])
    return changed


def update_endpoint_groups(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    macs: Iterable[str],
    groups: Sequence[str],
    how: GroupingMode,
    report: ProgressCallback = ignore_progress,
) -> int:
    """Change the groups of endpoints, except groups by rule. Returns the number of changed endpoints.

    Raises RowsRefused, UnknownGroup or GroupByRule.
    """
    reader = RowReader()
    found = _lock_endpoints(session, tenant_id, macs, reader)
    require_no_mistakes(reader.mistakes, place=_mistake_place)
    ids = [endpoint.id for _, endpoint in found]
    before = _groups_by_mac(session, tenant_id, found)
    if how == "set-groups":
        ENDPOINT_GROUPS.keep(session, tenant_id=tenant_id, names=groups)
        ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=ids)
    if how == "leave-groups":
        ENDPOINT_GROUPS.leave(session, tenant_id=tenant_id, member_ids=ids, names=groups)
    else:
        ENDPOINT_GROUPS.join(session, tenant_id=tenant_id, member_ids=ids, names=groups)
    after = _groups_by_mac(session, tenant_id, found)
    entries = [
        _audit_entry(
            actor,
            endpoint,
            "set-groups",
            before={"groups": before.get(endpoint.mac, ())},
            after={"groups": after.get(endpoint.mac, ())},
        )
        for _, endpoint in found
        if before.get(endpoint.mac) != after.get(endpoint.mac)
    ]
    report_moved, report_noted = split_progress(report, len(found))
    report_moved(len(found))
    audit.append_in_batches(session, entries, report_noted)
    return len(entries)


def _lock_endpoints(
    session: Session, tenant_id: TenantId, macs: Iterable[str], reader: RowReader
) -> list[tuple[InputLine, Endpoint]]:
    lines: dict[str, InputLine] = {}
    for number, text in enumerate(macs, start=1):
        line = InputLine(number, {})
        with reader.noted(line):
            lines.setdefault(require_mac(text), line)
    enrichment.lock_queue(session, tenant_id=tenant_id)
    known = repository.lock_by_macs(session, tenant_id, sorted(lines))
    for mac, line in lines.items():
        if mac not in known:
            reader.wrong(line, "", f"Endpoint {display_mac(mac)} does not exist.", _LIST_REMEDY)
    return [(line, known[mac]) for mac, line in lines.items() if mac in known]


def _update_status(
    session: Session, actor: str, found: Sequence[Endpoint], to: EndpointStatus, verb: str, report: ProgressCallback
) -> int:
    entries = []
    report_set, report_noted = split_progress(report, len(found))
    for number, endpoint in enumerate(found, start=1):
        if endpoint.status != to:
            entries.append(
                _audit_entry(actor, endpoint, verb, before={"status": endpoint.status}, after={"status": to})
            )
            endpoint.status = to
        if number % _BATCH_ROWS == 0 or number == len(found):
            session.flush()
            report_set(number)
    audit.append_in_batches(session, entries, report_noted)
    return len(entries)


def _groups_by_mac(
    session: Session, tenant_id: TenantId, found: Sequence[tuple[InputLine, Endpoint]]
) -> dict[str, tuple[str, ...]]:
    ids = [endpoint.id for _, endpoint in found]
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids, by_rule=False)
    return {endpoint.mac: names[endpoint.id] for _, endpoint in found if endpoint.id in names}


def _audit_entry(
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


def _mistake_place(mistake: RowMistake) -> str:
    return f"macs[{mistake.number - 1}]"
