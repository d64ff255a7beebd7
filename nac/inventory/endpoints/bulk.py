"""Bulk import of endpoints. The import compares all rows with the stored endpoints. It then stores all rows or no
rows."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import enrichment, repository
from nac.inventory.endpoints.service import RandomAddress, require_attributes, require_not_random, require_notes
from nac.inventory.groups import ENDPOINT_GROUPS, is_by_rule
from nac.kit.advice import Advice, NextStep
from nac.kit.bulk_rows import (
    EXISTING_REMEDY,
    WRONG_TYPE,
    InputLine,
    OnExisting,
    PlannedRow,
    ProgressCallback,
    RowMistake,
    RowReader,
    ignore_progress,
    parse_expiry,
    read_groups,
    split_progress,
)
from nac.kit.db.queries import analyse_if_grown
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.validation import require_mac, require_name
from nac.models import Endpoint
from nac.sessions.coa_requests import request_queue
from nac.tenancy import trial_limits

COLUMNS = ("mac", "name", "status", "groups", "owner", "notes", "valid_until")
_PLAIN_FIELDS = ("name", "status", "owner", "notes", "valid_until", "attributes")
_LOCK_BATCH = 5_000
# Number of rows per INSERT.
_BATCH_ROWS = 1_000
_CREATE_GROUP_REMEDY = Advice(
    "Create the group, or create all missing groups.",
    NextStep("createEndpointGroup"),
    NextStep(parameters={"make_groups": "true"}),
)


@dataclass(frozen=True, slots=True)
class EndpointBulkOptions:
    # Whether to create missing groups.
    make_groups: bool = False
    # Whether to also approve endpoints with random addresses.
    allow_random: bool = False
    existing: OnExisting = "refuse"


@dataclass(slots=True)
class _EndpointRow:
    number: int
    mac: str = ""
    name: str = ""
    status: str = "active"
    groups: tuple[str, ...] = ()
    owner: str = ""
    notes: str = ""
    valid_until: datetime | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class EndpointBulkPlan:
    """The planned change of each row. Do not store a plan with mistakes."""

    mistakes: list[RowMistake]
    missing_groups: tuple[str, ...]
    planned: list[PlannedRow]
    fresh: list[_EndpointRow]
    changed: list[_EndpointRow]
    # Stored endpoints by MAC address.
    known: Mapping[str, Endpoint]
    # Maps the id of each stored endpoint to the names of its groups, without groups by rule.
    groups: Mapping[UUID, tuple[str, ...]]


def plan_endpoints(
    session: Session, *, tenant_id: TenantId, lines: Iterable[InputLine], options: EndpointBulkOptions
) -> EndpointBulkPlan:
    """Plan the change of each row. Locks the stored endpoints of the rows until the transaction ends."""
    reader = RowReader()
    rows = _read_rows(lines, reader, options)
    if not rows:
        return EndpointBulkPlan(reader.mistakes, (), [], [], [], {}, {})
    # Lock the queue, so that the worker does not discover these endpoints before they are stored.
    enrichment.lock_queue(session, tenant_id=tenant_id)
    known = _lock_known(session, tenant_id, [row.mac for row in rows if row.mac])
    ids = [endpoint.id for endpoint in known.values()]
    groups: dict[UUID, tuple[str, ...]] = {}
    for start in range(0, len(ids), _LOCK_BATCH):
        part = ids[start : start + _LOCK_BATCH]
        groups |= ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=part, by_rule=False)
    missing = _missing_groups(session, tenant_id, rows, reader, options)
    made = EndpointBulkPlan(reader.mistakes, missing, [], [], [], known, groups)
    for row in rows:
        if row.mac:
            _plan_row(made, row, options)
    return made


def _read_rows(lines: Iterable[InputLine], reader: RowReader, options: EndpointBulkOptions) -> list[_EndpointRow]:
    rows: list[_EndpointRow] = []
    first: dict[str, int] = {}
    for line in lines:
        row = _read_row(line, reader, options)
        if row.mac in first:
            reader.add_duplicate(line.number, "mac", "this address", before=first[row.mac])
        elif row.mac:
            first[row.mac] = line.number
        rows.append(row)
    return rows


def _read_row(line: InputLine, reader: RowReader, options: EndpointBulkOptions) -> _EndpointRow:
    """Parse a line. Records a mistake for each value that cannot be parsed."""
    row = _EndpointRow(line.number)
    if not line.values.get("mac"):
        reader.wrong(line, "mac", "The address is missing.", "Set an address in each row, such as 00:11:22:33:44:55.")
    for name, read, kind in _FIELDS:
        reader.take(line, row, name, read, kind)
    if row.mac and row.status == "active":
        try:
            require_not_random([row.mac], allow_random=options.allow_random)
        except RandomAddress as exc:
            reader.wrong(line, "mac", exc.title, exc.remedy)
    return row


def _optional_name(text: str) -> str:
    return require_name(text) if text else ""


def _require_status(text: str) -> str:
    if text not in ("active", "blocked"):
        raise InvalidInput(f"Unknown status {text!r}.", remedy="Use the status active or blocked.")
    return text


def _require_text_attributes(values: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in values.values()):
        detail, remedy = WRONG_TYPE[dict]
        raise InvalidInput(detail, remedy=remedy)
    return require_attributes(values)


_FIELDS: tuple[tuple[str, Callable[[Any], object], type], ...] = (
    ("mac", require_mac, str),
    ("name", _optional_name, str),
    ("status", _require_status, str),
    ("groups", read_groups, list),
    ("owner", _optional_name, str),
    ("notes", require_notes, str),
    ("valid_until", parse_expiry, str),
    ("attributes", _require_text_attributes, dict),
)


def _lock_known(session: Session, tenant_id: TenantId, macs: list[str]) -> dict[str, Endpoint]:
    known: dict[str, Endpoint] = {}
    macs = sorted(macs)
    for start in range(0, len(macs), _LOCK_BATCH):
        known |= repository.lock_by_macs(session, tenant_id, macs[start : start + _LOCK_BATCH])
    return known


def _missing_groups(
    session: Session, tenant_id: TenantId, rows: Iterable[_EndpointRow], reader: RowReader, options: EndpointBulkOptions
) -> tuple[str, ...]:
    """Return the names of missing groups. Records a mistake for each group by rule and, without `make_groups`, for each
    missing group."""
    lines = reader.lines_naming((row.number, row.groups) for row in rows)
    ENDPOINT_GROUPS.keep(session, tenant_id=tenant_id, names=lines.keys())
    groups = {group.name: group for group in ENDPOINT_GROUPS.list_all(session, tenant_id=tenant_id)}
    for name in lines.keys() & groups.keys():
        if is_by_rule(groups[name]):
            detail = f"A rule sets the members of group {name!r}."
            reader.add_mistake_in_lines(lines[name], "groups", detail, "Remove the group from the row.")
    missing = tuple(sorted(lines.keys() - groups.keys()))
    if not options.make_groups:
        for name in missing:
            reader.add_mistake_in_lines(lines[name], "groups", f"Unknown group {name!r}.", _CREATE_GROUP_REMEDY)
    return missing


def _plan_row(made: EndpointBulkPlan, row: _EndpointRow, options: EndpointBulkOptions) -> None:
    name = display_mac(row.mac)
    endpoint = made.known.get(row.mac)
    if endpoint is None:
        made.fresh.append(row)
        made.planned.append(PlannedRow(row.number, name, "add"))
        return
    decided = endpoint.status in ("active", "blocked")
    if decided and options.existing == "refuse":
        made.mistakes.append(RowMistake(row.number, "mac", f"Endpoint {name} already exists.", EXISTING_REMEDY))
    elif decided and options.existing == "keep":
        made.planned.append(PlannedRow(row.number, name, "keep"))
    elif made.groups.get(endpoint.id, ()) == row.groups and not _differing_fields(endpoint, row):
        made.planned.append(PlannedRow(row.number, name, "same"))
    else:
        made.changed.append(row)
        made.planned.append(PlannedRow(row.number, name, "change"))


def _differing_fields(endpoint: Endpoint, row: _EndpointRow) -> list[str]:
    return [name for name in _PLAIN_FIELDS if getattr(endpoint, name) != getattr(row, name)]


def store_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    plan: EndpointBulkPlan,
    report: ProgressCallback = ignore_progress,
) -> None:
    """Store the planned changes, with an audit entry for each row. Calls `report` with the number of stored rows."""
    ENDPOINT_GROUPS.create_many(session, actor=actor, tenant_id=tenant_id, names=plan.missing_groups)
    rows = plan.fresh + plan.changed
    report_stored, report_noted = split_progress(report, len(rows))
    unblocked = [row.mac for row in plan.changed if (plan.known[row.mac].status, row.status) == ("blocked", "active")]
    entries = [_audit_entry(tenant_id, actor, "add", row, {}, _audit_values(row)) for row in plan.fresh]
    ids = _insert_rows(session, tenant_id, plan.fresh, report_stored)
    for number, row in enumerate(plan.changed, start=1):
        endpoint = plan.known[row.mac]
        ids[row.mac] = endpoint.id
        entries.append(_apply_change(endpoint, row, plan.groups.get(endpoint.id, ()), actor))
        if number % _BATCH_ROWS == 0 or number == len(plan.changed):
            session.flush()
            report_stored(len(plan.fresh) + number)
    ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=[ids[row.mac] for row in plan.changed])
    trial_limits.require_endpoint_limit(session, tenant_id=tenant_id)
    analyse_if_grown(session, "endpoints")
    _join_groups(session, tenant_id, rows, ids)
    enrichment.enqueue(session, tenant_id=tenant_id, macs=[row.mac for row in rows])
    blocked = [row.mac for row in rows if row.status == "blocked"]
    if blocked:
        request_queue.queue_block_disconnects(session, tenant_id=tenant_id, macs=blocked, requested_by=actor)
    if unblocked:
        request_queue.withdraw_block_disconnects(session, tenant_id=tenant_id, macs=unblocked)
    audit.append_in_batches(session, entries, report_noted)


def _insert_rows(
    session: Session, tenant_id: TenantId, rows: Sequence[_EndpointRow], report: ProgressCallback
) -> dict[str, UUID]:
    """Insert endpoints. Returns their ids by MAC address."""
    values: list[dict[str, Any]] = [
        {"id": uuid4(), "tenant_id": tenant_id, "mac": row.mac, **{name: getattr(row, name) for name in _PLAIN_FIELDS}}
        for row in rows
    ]
    # Do not use cached query plans. With a plan from the time when the table was empty, PostgreSQL would scan the whole
    # table for each foreign key.
    session.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    for start in range(0, len(values), _BATCH_ROWS):
        part = values[start : start + _BATCH_ROWS]
        session.execute(insert(Endpoint), part)
        report(start + len(part))
    return {row.mac: value["id"] for row, value in zip(rows, values, strict=True)}


def _apply_change(endpoint: Endpoint, row: _EndpointRow, groups: tuple[str, ...], actor: str) -> dict[str, Any]:
    """Apply the row and return its audit entry."""
    before = _audit_values(endpoint) | {"groups": list(groups)}
    for name in _differing_fields(endpoint, row):
        setattr(endpoint, name, getattr(row, name))
    after = _audit_values(row)
    differing = [name for name in after if after[name] != before[name]]
    shown = ({name: state[name] for name in differing} for state in (before, after))
    return _audit_entry(endpoint.tenant_id, actor, "set", row, *shown)


def _audit_values(row: _EndpointRow | Endpoint) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in _PLAIN_FIELDS}
    shown["valid_until"] = row.valid_until and row.valid_until.isoformat()
    return shown if isinstance(row, Endpoint) else shown | {"groups": list(row.groups)}


def _audit_entry(
    tenant_id: TenantId, actor: str, verb: str, row: _EndpointRow, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": f"endpoint.{verb}",
        "target": display_mac(row.mac),
        "tenant_id": tenant_id,
        "before": dict(before),
        "after": dict(after),
    }


def _join_groups(session: Session, tenant_id: TenantId, rows: Sequence[_EndpointRow], ids: Mapping[str, UUID]) -> None:
    members: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        for name in row.groups:
            members[name].append(ids[row.mac])
    ENDPOINT_GROUPS.join_each(session, tenant_id=tenant_id, members=members)
