"""Users by the thousand: rows are read and compared with what there is, and then all of them stored."""

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.errors import InvalidInput
from nac.groups import USER_GROUPS
from nac.ids import TenantId
from nac.models import User
from nac.replica.records import nt_hash_context
from nac.route_words import require_reachable
from nac.rows import EXISTING_REMEDY, Existing, Line, Planned, Reader, RowMistake, read_end, read_groups
from nac.sealing import Seal
from nac.users import repository, service
from nac.users.passwords import hash_password, nt_hash

# Each takes some 20 ms of one core to hash.
MOST_ROWS = 10_000
COLUMNS = ("name", "password", "nt_hash", "groups", "valid_until", "disabled")
_CHUNK = 5_000
_NT_HASH = re.compile(r"[0-9a-fA-F]{32}")


@dataclass(frozen=True, slots=True)
class Options:
    make_groups: bool = False
    existing: Existing = "refuse"
    # What passwords are stored for, besides PAP.
    chap: bool = False
    mschap: bool = False


@dataclass(slots=True)
class _Row:
    number: int
    name: str = ""
    password: str | None = field(default=None, repr=False)
    # Something was given for it, which may not have done.
    has_password: bool = False
    # In place of a password, which is then not known: MS-CHAP alone can be used.
    nt_hash: str | None = field(default=None, repr=False)
    # None of what is not said: a user that there is keeps it.
    groups: tuple[str, ...] | None = None
    valid_until: datetime | None = None
    disabled: bool | None = None


@dataclass(slots=True)
class Plan:
    """What becomes of the rows; nothing may be stored of one with mistakes."""

    mistakes: list[RowMistake]
    missing_groups: tuple[str, ...]
    planned: list[Planned]
    fresh: list[_Row]
    changed: list[_Row]
    # By name.
    known: Mapping[str, User]
    groups: Mapping[UUID, tuple[str, ...]]
    options: Options


def plan(session: Session, *, tenant_id: TenantId, lines: Iterable[Line], options: Options) -> Plan:
    """Locks what the lines are about until the transaction ends."""
    reader = Reader()
    rows = _read(lines, reader)
    known = repository.lock_names(session, tenant_id, sorted({row.name for row in rows if row.name}))
    ids = [user.id for user in known.values()]
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids)
    missing = _missing_groups(session, tenant_id, rows, reader, options)
    made = Plan(reader.mistakes, missing, [], [], [], known, groups, options)
    for row in rows:
        if row.name:
            _sort(made, row)
    return made


def _read(lines: Iterable[Line], reader: Reader) -> list[_Row]:
    rows: list[_Row] = []
    first: dict[str, int] = {}
    for line in lines:
        if len(rows) == MOST_ROWS:
            reader.wrong(line, "", f"There are more than {MOST_ROWS} users.", "Give them in several parts.")
            break
        row = _Row(line.number)
        if not line.values.get("name"):
            reader.wrong(line, "name", "There is no name.", "Each user needs one.")
        row.has_password = bool(line.values.get("password") or line.values.get("nt_hash"))
        for name, read, kind in _FIELDS:
            reader.take(line, row, name, read, kind)
        if row.name in first:
            reader.repeats(line.number, "name", repr(row.name), before=first[row.name])
        elif row.name:
            first[row.name] = line.number
        rows.append(row)
    return rows


def _password(text: str) -> str:
    service.require_password(text)
    return text


def _read_nt_hash(text: str) -> str:
    if not _NT_HASH.fullmatch(text):
        # Not shown: it is as good as a password.
        raise InvalidInput("That is no NT hash.", remedy="It has 32 hex digits.")
    return text.lower()


_FIELDS: tuple[tuple[str, Callable[[Any], object], type], ...] = (
    ("name", service.require_user_name, str),
    ("password", _password, str),
    ("nt_hash", _read_nt_hash, str),
    ("groups", read_groups, list),
    ("valid_until", read_end, str),
    ("disabled", bool, bool),
)


def _missing_groups(
    session: Session, tenant_id: TenantId, rows: Iterable[_Row], reader: Reader, options: Options
) -> tuple[str, ...]:
    lines = reader.lines_naming((row.number, row.groups or ()) for row in rows)
    USER_GROUPS.keep(session, tenant_id=tenant_id, names=lines.keys())
    missing = sorted(lines.keys() - {group.name for group in USER_GROUPS.list_all(session, tenant_id=tenant_id)})
    if not options.make_groups:
        for name in missing:
            remedy = "Add it: ./admit user-group add. Or say make_groups (--make-groups), which makes all of them."
            reader.wrong_in(lines[name], "groups", f"There is no group {name!r}.", remedy)
    return tuple(missing)


def _sort(made: Plan, row: _Row) -> None:
    user = made.known.get(row.name)
    if user is None:
        try:
            require_reachable("user", row.name)
        except InvalidInput as exc:
            made.mistakes.append(RowMistake(row.number, exc.place, exc.detail, exc.remedy))
        if not row.has_password:
            made.mistakes.append(RowMistake(row.number, "password", "There is no password.", "A new user needs one."))
        made.fresh.append(row)
        made.planned.append(Planned(row.number, row.name, "add"))
    elif made.options.existing == "refuse":
        made.mistakes.append(RowMistake(row.number, "name", f"There is a user {row.name!r} already.", EXISTING_REMEDY))
    elif made.options.existing == "keep":
        made.planned.append(Planned(row.number, row.name, "keep"))
    elif not row.has_password and _after(made, user, row) == _before(made, user):
        made.planned.append(Planned(row.number, row.name, "same"))
    else:
        made.changed.append(row)
        made.planned.append(Planned(row.number, row.name, "change"))


def _before(made: Plan, user: User) -> dict[str, Any]:
    return {
        "groups": list(made.groups.get(user.id, ())),
        "valid_until": user.valid_until and user.valid_until.isoformat(),
        "disabled": user.disabled,
    }


def _after(made: Plan, user: User, row: _Row) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if row.groups is not None:
        told["groups"] = list(row.groups)
    if row.valid_until is not None:
        told["valid_until"] = row.valid_until.isoformat()
    if row.disabled is not None:
        told["disabled"] = row.disabled
    return _before(made, user) | told


def store(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    plan: Plan,
    seal: Seal,
    tell: Callable[[int], None] = lambda done: None,
) -> None:
    """All of it, with an audit entry for each row. `tell`: of how many rows the password is hashed, which takes the
    time."""
    USER_GROUPS.create_many(session, actor=actor, tenant_id=tenant_id, names=plan.missing_groups)
    rows = plan.fresh + plan.changed
    columns = dict(zip((row.name for row in rows), _stored(rows, plan, seal, tell), strict=True))
    values = [{"tenant_id": tenant_id, **columns[row.name], **_plain(row)} for row in plan.fresh]
    for start in range(0, len(values), _CHUNK):
        session.execute(insert(User), values[start : start + _CHUNK])
    entries = [_entry(tenant_id, actor, row, columns[row.name]) for row in plan.fresh]
    for row in plan.changed:
        entries.append(_change(plan, row, columns[row.name], actor))
    session.flush()
    replaced = [plan.known[row.name].id for row in plan.changed if row.groups is not None]
    USER_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=replaced)
    _join_groups(session, tenant_id, rows, {name: each["id"] for name, each in columns.items()})
    audit.append_in_parts(session, entries)


def _stored(rows: Sequence[_Row], plan: Plan, seal: Seal, tell: Callable[[int], None]) -> list[dict[str, Any]]:
    """Of each row its id and what is stored of its password; nothing of that where it has none."""
    # Of those whose password is not known: nobody has it, so PAP refuses whatever is tried.
    unknown = hash_password(secrets.token_hex(32)) if any(row.nt_hash for row in rows) else ""
    stored: list[dict[str, Any]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashes = pool.map(lambda row: hash_password(row.password) if row.password is not None else unknown, rows)
        for row, password_hash in zip(rows, hashes, strict=True):
            known = plan.known.get(row.name)
            values: dict[str, Any] = {"id": uuid4() if known is None else known.id}
            if row.password is not None or row.nt_hash is not None:
                values |= {"password_hash": password_hash, **_sealed(values["id"], row, known, plan.options, seal)}
            stored.append(values)
            tell(len(stored))
    return stored


def _sealed(user_id: UUID, row: _Row, known: User | None, options: Options, seal: Seal) -> dict[str, bytes | None]:
    for_chap = options.chap or (known is not None and known.password_sealed is not None)
    for_mschap = options.mschap or (known is not None and known.nt_hash_sealed is not None)
    found = row.nt_hash
    if found is None and for_mschap and row.password is not None:
        found = nt_hash(row.password)
    sealed_password = for_chap and row.password is not None
    return {
        "password_sealed": seal((row.password or "").encode(), f"user:{user_id}") if sealed_password else None,
        "nt_hash_sealed": seal(found.encode(), nt_hash_context(user_id)) if found else None,
    }


def _plain(row: _Row) -> dict[str, Any]:
    return {"name": row.name, "valid_until": row.valid_until, "disabled": bool(row.disabled)}


def _change(plan: Plan, row: _Row, columns: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """What the audit log says of it."""
    user = plan.known[row.name]
    before, after = _before(plan, user), _after(plan, user, row)
    for name, value in columns.items():
        setattr(user, name, value)
    if row.valid_until is not None:
        user.valid_until = row.valid_until
    if row.disabled is not None:
        user.disabled = row.disabled
    told = {"password": "another"} if "password_hash" in columns else {}
    return {
        "actor": actor,
        "action": "user.change",
        "target": user.name,
        "tenant_id": user.tenant_id,
        "before": before,
        "after": after | told,
    }


def _entry(tenant_id: TenantId, actor: str, row: _Row, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": "user.create",
        "target": row.name,
        "tenant_id": tenant_id,
        "before": {},
        "after": {
            "groups": list(row.groups or ()),
            "chap": columns["password_sealed"] is not None,
            "mschap": columns["nt_hash_sealed"] is not None,
            "disabled": bool(row.disabled),
            "valid_until": row.valid_until and row.valid_until.isoformat(),
        },
    }


def _join_groups(session: Session, tenant_id: TenantId, rows: Iterable[_Row], ids: Mapping[str, UUID]) -> None:
    members: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        for name in row.groups or ():
            members[name].append(ids[row.name])
    USER_GROUPS.join_each(session, tenant_id=tenant_id, members=members)
