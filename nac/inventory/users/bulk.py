"""Bulk import of users. The import compares all rows with the stored users. It then stores all rows or no rows."""

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert
from sqlalchemy.orm import Session

from nac.cellformat.replica.records import nt_hash_context
from nac.core.audit import service as audit
from nac.inventory.groups import USER_GROUPS
from nac.inventory.users import repository, service
from nac.kit.advice import Advice, NextStep
from nac.kit.bulk_rows import (
    EXISTING_REMEDY,
    InputLine,
    OnExisting,
    PlannedRow,
    RowMistake,
    RowReader,
    parse_expiry,
    read_groups,
)
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.passwords import compute_nt_hash, hash_password
from nac.kit.sealing import Seal
from nac.kit.validation import require_not_reserved
from nac.models import User

# Maximum number of rows. Hashing a password takes about 20 ms of one core.
MAX_ROWS = 10_000
COLUMNS = ("name", "password", "nt_hash", "groups", "valid_until", "disabled")
_INSERT_BATCH = 5_000
_NT_HASH = re.compile(r"[0-9a-fA-F]{32}")
_CREATE_GROUP_REMEDY = Advice(
    "Create the group, or create all missing groups.",
    NextStep("createUserGroup"),
    NextStep(parameters={"make_groups": "true"}),
)


@dataclass(frozen=True, slots=True)
class UserBulkOptions:
    make_groups: bool = False
    existing: OnExisting = "refuse"
    # Whether to also store the encrypted passwords for CHAP. PAP always works.
    chap: bool = False
    # Whether to also store the encrypted NT hashes for MS-CHAP.
    mschap: bool = False


@dataclass(slots=True)
class _UserRow:
    number: int
    name: str = ""
    password: str | None = field(default=None, repr=False)
    # True if the row has a password or NT hash, even if it is invalid.
    has_password: bool = False
    # NT hash, for a user without a password. Then only MS-CHAP works, because Admit does not know the password.
    nt_hash: str | None = field(default=None, repr=False)
    # This field and the fields below are None if the row does not set the value. The stored value then does not change.
    groups: tuple[str, ...] | None = None
    valid_until: datetime | None = None
    disabled: bool | None = None


@dataclass(slots=True)
class UserBulkPlan:
    """The planned change of each row. Do not store a plan with mistakes."""

    mistakes: list[RowMistake]
    missing_groups: tuple[str, ...]
    planned: list[PlannedRow]
    fresh: list[_UserRow]
    changed: list[_UserRow]
    # Stored users by name.
    known: Mapping[str, User]
    groups: Mapping[UUID, tuple[str, ...]]
    options: UserBulkOptions


def plan_users(
    session: Session, *, tenant_id: TenantId, lines: Iterable[InputLine], options: UserBulkOptions
) -> UserBulkPlan:
    """Plan the change of each row. Locks the stored users of the rows until the transaction ends."""
    reader = RowReader()
    rows = _read_rows(lines, reader)
    known = repository.lock_names(session, tenant_id, sorted({row.name for row in rows if row.name}))
    ids = [user.id for user in known.values()]
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids)
    missing = _missing_groups(session, tenant_id, rows, reader, options)
    made = UserBulkPlan(reader.mistakes, missing, [], [], [], known, groups, options)
    for row in rows:
        if row.name:
            _plan_row(made, row)
    return made


def _read_rows(lines: Iterable[InputLine], reader: RowReader) -> list[_UserRow]:
    rows: list[_UserRow] = []
    first: dict[str, int] = {}
    for line in lines:
        if len(rows) == MAX_ROWS:
            reader.wrong(line, "", f"The import has more than {MAX_ROWS} users.", "Import the users in several parts.")
            break
        row = _UserRow(line.number)
        if not line.values.get("name"):
            reader.wrong(line, "name", "The name is missing.", "Set a name for each user.")
        row.has_password = bool(line.values.get("password") or line.values.get("nt_hash"))
        for name, read, kind in _FIELDS:
            reader.take(line, row, name, read, kind)
        if row.name in first:
            reader.add_duplicate(line.number, "name", repr(row.name), before=first[row.name])
        elif row.name:
            first[row.name] = line.number
        rows.append(row)
    return rows


def _read_password(text: str) -> str:
    service.require_password(text)
    return text


def _read_nt_hash(text: str) -> str:
    if not _NT_HASH.fullmatch(text):
        # Do not show the value, because an NT hash is as secret as a password.
        raise InvalidInput("Invalid NT hash.", remedy="Use an NT hash of 32 hex digits.")
    return text.lower()


_FIELDS: tuple[tuple[str, Callable[[Any], object], type], ...] = (
    ("name", service.require_user_name, str),
    ("password", _read_password, str),
    ("nt_hash", _read_nt_hash, str),
    ("groups", read_groups, list),
    ("valid_until", parse_expiry, str),
    ("disabled", bool, bool),
)


def _missing_groups(
    session: Session, tenant_id: TenantId, rows: Iterable[_UserRow], reader: RowReader, options: UserBulkOptions
) -> tuple[str, ...]:
    lines = reader.lines_naming((row.number, row.groups or ()) for row in rows)
    USER_GROUPS.keep(session, tenant_id=tenant_id, names=lines.keys())
    missing = sorted(lines.keys() - {group.name for group in USER_GROUPS.list_all(session, tenant_id=tenant_id)})
    if not options.make_groups:
        for name in missing:
            reader.add_mistake_in_lines(lines[name], "groups", f"Unknown group {name!r}.", _CREATE_GROUP_REMEDY)
    return tuple(missing)


def _plan_row(made: UserBulkPlan, row: _UserRow) -> None:
    user = made.known.get(row.name)
    if user is None:
        try:
            require_not_reserved("user", row.name)
        except InvalidInput as exc:
            made.mistakes.append(RowMistake(row.number, exc.place, exc.detail, exc.remedy))
        if not row.has_password:
            made.mistakes.append(
                RowMistake(row.number, "password", "The password is missing.", "Set a password for each new user.")
            )
        made.fresh.append(row)
        made.planned.append(PlannedRow(row.number, row.name, "add"))
    elif made.options.existing == "refuse":
        made.mistakes.append(RowMistake(row.number, "name", f"User {row.name!r} already exists.", EXISTING_REMEDY))
    elif made.options.existing == "keep":
        made.planned.append(PlannedRow(row.number, row.name, "keep"))
    elif not row.has_password and _describe_after(made, user, row) == _describe_before(made, user):
        made.planned.append(PlannedRow(row.number, row.name, "same"))
    else:
        made.changed.append(row)
        made.planned.append(PlannedRow(row.number, row.name, "change"))


def _describe_before(made: UserBulkPlan, user: User) -> dict[str, Any]:
    return {
        "groups": list(made.groups.get(user.id, ())),
        "valid_until": user.valid_until and user.valid_until.isoformat(),
        "disabled": user.disabled,
    }


def _describe_after(made: UserBulkPlan, user: User, row: _UserRow) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if row.groups is not None:
        changes["groups"] = list(row.groups)
    if row.valid_until is not None:
        changes["valid_until"] = row.valid_until.isoformat()
    if row.disabled is not None:
        changes["disabled"] = row.disabled
    return _describe_before(made, user) | changes


def store_users(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    plan: UserBulkPlan,
    seal: Seal,
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Store the planned changes, with an audit entry for each row. Calls `report` with the number of processed rows."""
    USER_GROUPS.create_many(session, actor=actor, tenant_id=tenant_id, names=plan.missing_groups)
    rows = plan.fresh + plan.changed
    columns = dict(zip((row.name for row in rows), _hash_rows(rows, plan, seal, report), strict=True))
    values = [{"tenant_id": tenant_id, **columns[row.name], **_plain_columns(row)} for row in plan.fresh]
    for start in range(0, len(values), _INSERT_BATCH):
        session.execute(insert(User), values[start : start + _INSERT_BATCH])
    entries = [_audit_entry(tenant_id, actor, row, columns[row.name]) for row in plan.fresh]
    for row in plan.changed:
        entries.append(_update_row(plan, row, columns[row.name], actor))
    session.flush()
    replaced = [plan.known[row.name].id for row in plan.changed if row.groups is not None]
    USER_GROUPS.leave_all(session, tenant_id=tenant_id, member_ids=replaced)
    _join_groups(session, tenant_id, rows, {name: each["id"] for name, each in columns.items()})
    audit.append_in_batches(session, entries)


def _hash_rows(
    rows: Sequence[_UserRow], plan: UserBulkPlan, seal: Seal, report: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Return the column values of each row: `id`, and for rows with a password or NT hash the password columns."""
    # Users with only an NT hash get the hash of a random password that nobody knows, so that PAP always fails.
    unknown = hash_password(secrets.token_hex(32)) if any(row.nt_hash for row in rows) else ""
    stored: list[dict[str, Any]] = []
    hashes = _hashing_threads().map(
        lambda row: hash_password(row.password) if row.password is not None else unknown, rows
    )
    for row, password_hash in zip(rows, hashes, strict=True):
        known = plan.known.get(row.name)
        values: dict[str, Any] = {"id": uuid4() if known is None else known.id}
        if row.password is not None or row.nt_hash is not None:
            values |= {
                "password_hash": password_hash,
                **_seal_passwords(values["id"], row, known, plan.options, seal),
            }
        stored.append(values)
        report(len(stored))
    return stored


@cache
def _hashing_threads() -> ThreadPoolExecutor:
    """Return the thread pool that hashes passwords. It has only one thread per core, because a hash needs 19 MB."""
    return ThreadPoolExecutor(os.cpu_count(), "hash")


def _seal_passwords(
    user_id: UUID, row: _UserRow, known: User | None, options: UserBulkOptions, seal: Seal
) -> dict[str, bytes | None]:
    for_chap = options.chap or (known is not None and known.password_sealed is not None)
    for_mschap = options.mschap or (known is not None and known.nt_hash_sealed is not None)
    found = row.nt_hash
    if found is None and for_mschap and row.password is not None:
        found = compute_nt_hash(row.password)
    sealed_password = for_chap and row.password is not None
    return {
        "password_sealed": seal((row.password or "").encode(), f"user:{user_id}") if sealed_password else None,
        "nt_hash_sealed": seal(found.encode(), nt_hash_context(user_id)) if found else None,
    }


def _plain_columns(row: _UserRow) -> dict[str, Any]:
    return {"name": row.name, "valid_until": row.valid_until, "disabled": bool(row.disabled)}


def _update_row(plan: UserBulkPlan, row: _UserRow, columns: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Apply the row and return its audit entry."""
    user = plan.known[row.name]
    before, after = _describe_before(plan, user), _describe_after(plan, user, row)
    for name, value in columns.items():
        setattr(user, name, value)
    if row.valid_until is not None:
        user.valid_until = row.valid_until
    if row.disabled is not None:
        user.disabled = row.disabled
    password = {"password": "another"} if "password_hash" in columns else {}
    return {
        "actor": actor,
        "action": "user.change",
        "target": user.name,
        "tenant_id": user.tenant_id,
        "before": before,
        "after": after | password,
    }


def _audit_entry(tenant_id: TenantId, actor: str, row: _UserRow, columns: Mapping[str, Any]) -> dict[str, Any]:
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


def _join_groups(session: Session, tenant_id: TenantId, rows: Iterable[_UserRow], ids: Mapping[str, UUID]) -> None:
    members: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        for name in row.groups or ():
            members[name].append(ids[row.name])
    USER_GROUPS.join_each(session, tenant_id=tenant_id, members=members)
