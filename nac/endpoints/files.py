"""Endpoints out of files and into them: CSV with a header line, or JSON lines. All of a file is stored, or nothing.

Columns are `COLUMNS`; only `mac` is required. In CSV, groups are separated by semicolons and a column "attribute.<key>"
is an attribute; in JSON, groups are a list and attributes an object.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.coa_requests import queueing
from nac.endpoints import repository, work
from nac.endpoints.service import RandomAddress, require_attributes, require_lasting, require_notes
from nac.engine import Mistake
from nac.errors import AdmitError, InvalidInput
from nac.groups import ENDPOINT_GROUPS, is_by_rule
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint
from nac.trials import limits as trial_limits
from nac.validation import require_future, require_mac, require_name

COLUMNS = ("mac", "name", "status", "groups", "owner", "notes", "valid_until")
_ATTRIBUTE = "attribute."
# A file of so many is read, checked and stored in one transaction.
MAX_ROWS = 100_000
_CHUNK = 5_000
MAX_SHOWN = 200


class InvalidFile(InvalidInput):
    """The file has mistakes; nothing was stored."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        more = len(mistakes) - MAX_SHOWN
        shown = [str(mistake) for mistake in mistakes[:MAX_SHOWN]] + ([f"and {more} more"] if more > 0 else [])
        count = f"{len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}; nothing was stored"
        super().__init__("\n  ".join([count, *shown]), place="file")
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    values: Mapping[str, Any]


@dataclass(slots=True)
class _Row:
    number: int
    mac: str
    name: str = ""
    status: str = "active"
    groups: tuple[str, ...] = ()
    owner: str = ""
    notes: str = ""
    valid_until: datetime | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Imported:
    added: int
    changed: int
    groups_made: tuple[str, ...]


def import_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    text: str,
    make_groups: bool = False,
    allow_random: bool = False,
    update: bool = False,
) -> Imported:
    """Approve (or block) the endpoints of a file. Raises InvalidFile with every mistake and its line.

    `update`: those that there are already are made what the file says, in place of being mistakes.
    """
    mistakes: list[Mistake] = []
    rows = list(_checked(_lines(text, mistakes), mistakes, allow_random))
    # Or the worker discovers some of them before they are stored.
    work.hold(session, tenant_id=tenant_id)
    known = _known(session, tenant_id, [row.mac for row in rows if row.mac])
    if not update:
        mistakes += [
            Mistake(f"line {row.number}", f"there is an endpoint {display_mac(row.mac)} already; --update changes it")
            for row in rows
            if row.mac in known and known[row.mac].status in ("active", "blocked")
        ]
    made = _groups(session, actor, tenant_id, rows, mistakes, make_groups=make_groups)
    if mistakes:
        raise InvalidFile(sorted(mistakes, key=_by_line))
    fresh = [row for row in rows if row.mac not in known]
    unblocked = [
        row.mac for row in rows if row.mac in known and (known[row.mac].status, row.status) == ("blocked", "active")
    ]
    ids = {mac: endpoint.id for mac, endpoint in known.items()} | _insert(session, tenant_id, fresh)
    for row in rows:
        if row.mac in known:
            _change(known[row.mac], row)
    trial_limits.require_endpoints(session, tenant_id=tenant_id)
    ENDPOINT_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=[endpoint.id for endpoint in known.values()])
    _join_groups(session, tenant_id, rows, ids)
    work.enqueue(session, tenant_id=tenant_id, macs=[row.mac for row in rows])
    blocked = [row.mac for row in rows if row.status == "blocked"]
    if blocked:
        queueing.queue_blocks(session, tenant_id=tenant_id, macs=blocked, asked_by=actor)
    if unblocked:
        queueing.withdraw_blocks(session, tenant_id=tenant_id, macs=unblocked)
    done = Imported(len(fresh), len(rows) - len(fresh), made)
    after = {"added": done.added, "changed": done.changed, "groups_made": list(made)}
    target = f"{len(rows)} endpoints"
    audit.append(session, actor=actor, action="endpoint.import", target=target, tenant_id=tenant_id, after=after)
    return done


def _lines(text: str, mistakes: list[Mistake]) -> Iterator[Line]:
    """Of either form: JSON lines begin with a brace."""
    text = text.removeprefix("\ufeff")
    lines = _json_lines(text, mistakes) if text.lstrip().startswith("{") else _csv_lines(text, mistakes)
    for count, line in enumerate(lines):
        if count == MAX_ROWS:
            mistakes.append(Mistake(f"line {line.number}", f"more than {MAX_ROWS} endpoints; use several files"))
            return
        yield line


def _json_lines(text: str, mistakes: list[Mistake]) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            mistakes.append(Mistake(f"line {number}", "is not JSON"))
            continue
        if not isinstance(values, dict):
            mistakes.append(Mistake(f"line {number}", 'must be an object, such as {"mac": "00:11:22:33:44:55"}'))
        elif unknown := [key for key in values if key not in (*COLUMNS, "attributes")]:
            mistakes.append(Mistake(f"line {number}", _unknown(unknown, "attributes")))
        else:
            yield Line(number, values)


def _csv_lines(text: str, mistakes: list[Mistake]) -> Iterator[Line]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            number = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                if wrong := _wrong_header(header):
                    mistakes.append(Mistake(f"line {number}", wrong))
                    return
            elif len(cells) != len(header):
                mistakes.append(Mistake(f"line {number}", f"{len(cells)} fields where the header has {len(header)}"))
            else:
                yield Line(number, _of_csv(dict(zip(header, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as exc:
        mistakes.append(Mistake(f"line {reader.line_num}", f"is not CSV: {exc}"))
    if header is None and not mistakes:
        mistakes.append(Mistake("", "there is no line in it"))


def _wrong_header(header: list[str]) -> str:
    unknown = [name for name in header if name not in COLUMNS and not name.startswith(_ATTRIBUTE)]
    if unknown:
        return _unknown(unknown, f"{_ATTRIBUTE}<key>")
    if "mac" not in header:
        return "the header has no column mac"
    return "a column comes twice" if len(set(header)) != len(header) else ""


def _unknown(names: list[str], more: str) -> str:
    return f"unknown: {', '.join(repr(name[:40]) for name in names[:5])}; there are: {', '.join((*COLUMNS, more))}"


def _of_csv(cells: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {name: text for name, text in cells.items() if name in COLUMNS and text}
    if "groups" in values:
        values["groups"] = [name.strip() for name in values["groups"].split(";") if name.strip()]
    attributes = {
        name.removeprefix(_ATTRIBUTE): text for name, text in cells.items() if name.startswith(_ATTRIBUTE) and text
    }
    return {**values, "attributes": attributes}


def _checked(lines: Iterable[Line], mistakes: list[Mistake], allow_random: bool) -> Iterator[_Row]:
    first: dict[str, int] = {}
    for line in lines:
        row = _row(line, mistakes, allow_random)
        if row.mac in first:
            mistakes.append(Mistake(f"line {line.number}", f"the address of line {first[row.mac]} comes again"))
        elif row.mac:
            first[row.mac] = line.number
        yield row


def _row(line: Line, mistakes: list[Mistake], allow_random: bool) -> _Row:
    """What of it can be read: the rest is among the mistakes then."""
    row = _Row(line.number, "")

    def read(name: str, take: Callable[[Any], Any], kind: type = str) -> None:
        value = line.values.get(name)
        if value is None:
            return
        place = f"line {line.number}: {name}"
        if not isinstance(value, kind):
            mistakes.append(Mistake(place, _KIND[kind]))
            return
        try:
            setattr(row, name, take(value))
        except AdmitError as exc:
            mistakes.append(Mistake(place, f"{exc.detail} {exc.remedy}".strip()))

    if not line.values.get("mac"):
        mistakes.append(Mistake(f"line {line.number}: mac", "is missing"))
    read("mac", require_mac)
    read("name", lambda text: require_name(text) if text else "")
    read("status", _status)
    read("groups", _group_names, list)
    read("owner", lambda text: require_name(text) if text else "")
    read("notes", require_notes)
    read("valid_until", _moment)
    read("attributes", _attributes, dict)
    if row.mac and row.status == "active":
        try:
            require_lasting([row.mac], allow_random=allow_random)
        except RandomAddress as exc:
            mistakes.append(Mistake(f"line {line.number}: mac", f"{exc.title} {exc.remedy}"))
    return row


_KIND: dict[type, str] = {str: "must be text", list: "must be a list of names", dict: "must be an object of texts"}


def _status(text: str) -> str:
    if text not in ("active", "blocked"):
        raise InvalidInput(f"{text!r} is no status.", remedy="Use active or blocked.")
    return text


def _group_names(names: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput("must be a list of names")
    return tuple(sorted({require_name(name) for name in names}))


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is no date.", remedy="Write it as 2027-01-31 or 2027-01-31T18:00+01:00.") from exc
    return require_future(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _attributes(values: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in values.values()):
        raise InvalidInput("must be an object of texts")
    return require_attributes(values)


def _by_line(mistake: Mistake) -> tuple[int, str]:
    number = mistake.place.removeprefix("line ").partition(":")[0]
    return (int(number) if number.isdecimal() else 0), mistake.message


def _known(session: Session, tenant_id: TenantId, macs: list[str]) -> dict[str, Endpoint]:
    known: dict[str, Endpoint] = {}
    macs = sorted(macs)
    for start in range(0, len(macs), _CHUNK):
        known |= repository.lock_macs(session, tenant_id, macs[start : start + _CHUNK])
    return known


def _groups(
    session: Session,
    actor: str,
    tenant_id: TenantId,
    rows: Collection[_Row],
    mistakes: list[Mistake],
    *,
    make_groups: bool,
) -> tuple[str, ...]:
    """Names of the groups that were made; the mistakes of those that are missing, or that a rule fills, are added."""
    first: dict[str, int] = {}
    for row in rows:
        for name in row.groups:
            first.setdefault(name, row.number)
    groups = {group.name: group for group in ENDPOINT_GROUPS.list_all(session, tenant_id=tenant_id)}
    missing = sorted(first.keys() - groups.keys())
    mistakes += [
        Mistake(f"line {first[name]}: groups", f"a rule makes the members of {name!r}")
        for name in first.keys() & groups.keys()
        if is_by_rule(groups[name])
    ]
    if not make_groups:
        mistakes += [
            Mistake(f"line {first[name]}: groups", f"there is no group {name!r}; --make-groups makes those missing")
            for name in missing
        ]
    if mistakes:
        return ()
    for name in missing:
        ENDPOINT_GROUPS.create(session, actor=actor, tenant_id=tenant_id, name=name)
    return tuple(missing)


def _insert(session: Session, tenant_id: TenantId, rows: list[_Row]) -> dict[str, UUID]:
    """Ids by address."""
    values: list[dict[str, Any]] = [
        {
            "id": uuid4(),
            "tenant_id": tenant_id,
            "mac": row.mac,
            "name": row.name,
            "status": row.status,
            "owner": row.owner,
            "notes": row.notes,
            "valid_until": row.valid_until,
            "attributes": row.attributes,
        }
        for row in rows
    ]
    # Foreign keys are checked by a plan that is made once: over a table that was empty then, it reads all of that for
    # each row.
    session.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
    for start in range(0, len(values), _CHUNK):
        session.execute(insert(Endpoint), values[start : start + _CHUNK])
    return {row.mac: value["id"] for row, value in zip(rows, values, strict=True)}


def _change(endpoint: Endpoint, row: _Row) -> None:
    endpoint.name, endpoint.status = row.name, row.status
    endpoint.owner, endpoint.notes = row.owner, row.notes
    endpoint.valid_until, endpoint.attributes = row.valid_until, row.attributes


def _join_groups(session: Session, tenant_id: TenantId, rows: Collection[_Row], ids: Mapping[str, UUID]) -> None:
    """By group: a file names few."""
    members: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        for name in row.groups:
            members[name].append(ids[row.mac])
    for name, joining in members.items():
        ENDPOINT_GROUPS.join(session, tenant_id=tenant_id, member_ids=joining, names=[name])
