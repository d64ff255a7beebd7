"""Bulk import of endpoints: compares rows with the stored endpoints, then stores all of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.bulk_rows import (
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
from nac.coa_requests import queueing
from nac.db.growth import note_growth
from nac.endpoints import repository, work
from nac.endpoints.service import RandomAddress, require_attributes, require_lasting, require_notes
from nac.errors import InvalidInput
from nac.groups import ENDPOINT_GROUPS, is_by_rule
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint
from nac.trials import limits as trial_limits
from nac.validation import require_mac, require_name

COLUMNS = ("mac", "name", "status", "groups", "owner", "notes", "valid_until")
_PLAIN = ("name", "status", "owner", "notes", "valid_until", "attributes")
_CHUNK = 5_000
# Rows per INSERT.
_STORED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Options:
    # Create missing groups.
    make_groups: bool = False
    # Also approve random addresses.
    allow_random: bool = False
    existing: OnExisting = "refuse"


@dataclass(slots=True)
class _Row:
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
class Plan:
    """The planned change of each row. Must not be stored if it has mistakes."""

    mistakes: list[RowMistake]
    missing_groups: tuple[str, ...]
    planned: list[PlannedRow]
    fresh: list[_Row]
    changed: list[_Row]
    # Endpoints by address, and their groups except groups by rule.
    known: Mapping[str, Endpoint]
    groups: Mapping[UUID, tuple[str, ...]]


def plan(session: Session, *, tenant_id: TenantId, lines: Iterable[InputLine], options: Options) -> Plan:
    """Plan the changes. Locks the endpoints until the transaction ends."""
    reader = RowReader()
    rows = _read(lines, reader, options)
    if not rows:
        return Plan(reader.mistakes, (), [], [], [], {}, {})
    # Prevents the worker from discovering these endpoints before they are stored.
    work.hold(session, tenant_id=tenant_id)
    known = _known(session, tenant_id, [row.mac for row in rows if row.mac])
    ids = [endpoint.id for endpoint in known.values()]
    groups: dict[UUID, tuple[str, ...]] = {}
    for start in range(0, len(ids), _CHUNK):
        part = ids[start : start + _CHUNK]
        groups |= ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=part, by_rule=False)
    missing = _missing_groups(session, tenant_id, rows, reader, options)
    made = Plan(reader.mistakes, missing, [], [], [], known, groups)
    for row in rows:
        if row.mac:
            _sort(made, row, options)
    return made


def _read(lines: Iterable[InputLine], reader: RowReader, options: Options) -> list[_Row]:
    rows: list[_Row] = []
    first: dict[str, int] = {}
    for line in lines:
        row = _row(line, reader, options)
        if row.mac in first:
            reader.add_duplicate(line.number, "mac", "this address", before=first[row.mac])
        elif row.mac:
            first[row.mac] = line.number
        rows.append(row)
    return rows


def _row(line: InputLine, reader: RowReader, options: Options) -> _Row:
    """Parse a line. Values that cannot be parsed are recorded as mistakes."""
    row = _Row(line.number)
    if not line.values.get("mac"):
        reader.wrong(line, "mac", "The address is missing.", "Set an address in each row, such as 00:11:22:33:44:55.")
    for name, read, kind in _FIELDS:
        reader.take(line, row, name, read, kind)
    if row.mac and row.status == "active":
        try:
            require_lasting([row.mac], allow_random=options.allow_random)
        except RandomAddress as exc:
            reader.wrong(line, "mac", exc.title, exc.remedy)
    return row


def _name_or_none(text: str) -> str:
    return require_name(text) if text else ""


def _status(text: str) -> str:
    if text not in ("active", "blocked"):
        raise InvalidInput(f"Unknown status {text!r}.", remedy="Use active or blocked.")
    return text


def _attributes(values: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in values.values()):
        detail, remedy = WRONG_TYPE[dict]
        raise InvalidInput(detail, remedy=remedy)
    return require_attributes(values)


_FIELDS: tuple[tuple[str, Callable[[Any], object], type], ...] = (
    ("mac", require_mac, str),
    ("name", _name_or_none, str),
    ("status", _status, str),
    ("groups", read_groups, list),
    ("owner", _name_or_none, str),
    ("notes", require_notes, str),
    ("valid_until", parse_expiry, str),
    ("attributes", _attributes, dict),
)


def _known(session: Session, tenant_id: TenantId, macs: list[str]) -> dict[str, Endpoint]:
    known: dict[str, Endpoint] = {}
    macs = sorted(macs)
    for start in range(0, len(macs), _CHUNK):
        known |= repository.lock_macs(session, tenant_id, macs[start : start + _CHUNK])
    return known


def _missing_groups(
    session: Session, tenant_id: TenantId, rows: Iterable[_Row], reader: RowReader, options: Options
) -> tuple[str, ...]:
    """Return the names of groups to create. Missing groups and groups by rule are mistakes."""
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
            remedy = (
                "Create it with ./admit endpoint-group add, or set make_groups (--make-groups) to create all"
                " missing groups."
            )
            reader.add_mistake_in_lines(lines[name], "groups", f"Unknown group {name!r}.", remedy)
    return missing


def _sort(made: Plan, row: _Row, options: Options) -> None:
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
    elif made.groups.get(endpoint.id, ()) == row.groups and not _differing(endpoint, row):
        made.planned.append(PlannedRow(row.number, name, "same"))
    else:
        made.changed.append(row)
        made.planned.append(PlannedRow(row.number, name, "change"))


def _differing(endpoint: Endpoint, row: _Row) -> list[str]:
    return [name for name in _PLAIN if getattr(endpoint, name) != getattr(row, name)]


def store(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    plan: Plan,
    tell: ProgressCallback = ignore_progress,
) -> None:
    """Store the plan, with an audit entry for each row. Calls `tell` with the number of rows done."""
    ENDPOINT_GROUPS.create_many(session, actor=actor, tenant_id=tenant_id, names=plan.missing_groups)
    rows = plan.fresh + plan.changed
    tell_stored, tell_noted = split_progress(tell, len(rows))
    unblocked = [row.mac for row in plan.changed if (plan.known[row.mac].status, row.status) == ("blocked", "active")]
    entries = [_entry(tenant_id, actor, "add", row, {}, _shown(row)) for row in plan.fresh]
    ids = _insert(session, tenant_id, plan.fresh, tell_stored)
    for number, row in enumerate(plan.changed, start=1):
        endpoint = plan.known[row.mac]
        ids[row.mac] = endpoint.id
        entries.append(_change(endpoint, row, plan.groups.get(endpoint.id, ()), actor))
        if number % _STORED_AT_ONCE == 0 or number == len(plan.changed):
            session.flush()
            tell_stored(len(plan.fresh) + number)
    ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=[ids[row.mac] for row in plan.changed])
    trial_limits.require_endpoint_limit(session, tenant_id=tenant_id)
    note_growth(session, "endpoints")
    _join_groups(session, tenant_id, rows, ids)
    work.enqueue(session, tenant_id=tenant_id, macs=[row.mac for row in rows])
    blocked = [row.mac for row in rows if row.status == "blocked"]
    if blocked:
        queueing.queue_blocks(session, tenant_id=tenant_id, macs=blocked, asked_by=actor)
    if unblocked:
        queueing.withdraw_blocks(session, tenant_id=tenant_id, macs=unblocked)
    audit.append_in_parts(session, entries, tell_noted)


def _insert(session: Session, tenant_id: TenantId, rows: Sequence[_Row], tell: ProgressCallback) -> dict[str, UUID]:
    """Return the new ids by address."""
    values: list[dict[str, Any]] = [
        {"id": uuid4(), "tenant_id": tenant_id, "mac": row.mac, **{name: getattr(row, name) for name in _PLAIN}}
        for row in rows
    ]
    # A cached plan made while the table was empty scans the whole table for each foreign key.
    session.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    for start in range(0, len(values), _STORED_AT_ONCE):
        part = values[start : start + _STORED_AT_ONCE]
        session.execute(insert(Endpoint), part)
        tell(start + len(part))
    return {row.mac: value["id"] for row, value in zip(rows, values, strict=True)}


def _change(endpoint: Endpoint, row: _Row, groups: tuple[str, ...], actor: str) -> dict[str, Any]:
    """Apply the row and return its audit entry."""
    before = _shown(endpoint) | {"groups": list(groups)}
    for name in _differing(endpoint, row):
        setattr(endpoint, name, getattr(row, name))
    after = _shown(row)
    differing = [name for name in after if after[name] != before[name]]
    shown = ({name: state[name] for name in differing} for state in (before, after))
    return _entry(endpoint.tenant_id, actor, "set", row, *shown)


def _shown(row: _Row | Endpoint) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in _PLAIN}
    shown["valid_until"] = row.valid_until and row.valid_until.isoformat()
    return shown if isinstance(row, Endpoint) else shown | {"groups": list(row.groups)}


def _entry(
    tenant_id: TenantId, actor: str, verb: str, row: _Row, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": f"endpoint.{verb}",
        "target": display_mac(row.mac),
        "tenant_id": tenant_id,
        "before": dict(before),
        "after": dict(after),
    }


def _join_groups(session: Session, tenant_id: TenantId, rows: Sequence[_Row], ids: Mapping[str, UUID]) -> None:
    members: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        for name in row.groups:
            members[name].append(ids[row.mac])
    ENDPOINT_GROUPS.join_each(session, tenant_id=tenant_id, members=members)
