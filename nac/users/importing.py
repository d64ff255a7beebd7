"""Users from a CSV file: all of them, or none and every mistake at once.

The first line names the columns: name and password, and where wanted groups (with semicolons between them), valid_until
(ISO 8601, UTC where it does not say) and disabled (yes or no).
"""

import csv
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from typing import NamedTuple

from sqlalchemy.orm import Session

from nac.errors import AdmitError, InvalidInput
from nac.groups import USER_GROUPS
from nac.ids import TenantId
from nac.sealing import Seal
from nac.users import repository
from nac.users import service as users
from nac.users.passwords import hash_password
from nac.validation import require_future

# Each takes some 20 ms of one core to hash.
MOST_ROWS = 10_000
_NEEDED = ("name", "password")
_COLUMNS = (*_NEEDED, "groups", "valid_until", "disabled")
_TRUTH = {"": False, "no": False, "yes": True}


class Mistake(NamedTuple):
    # As a spreadsheet counts: the first line has the names of the columns.
    line: int
    column: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}{', ' if self.column else ''}{self.column}: {self.message}"


class InvalidUserFile(InvalidInput):
    """The file of users is not valid; nothing of it was stored."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(f"{len(self.mistakes)} mistakes; the first: {self.mistakes[0]}")


class _Row(NamedTuple):
    name: str
    password: str
    groups: tuple[str, ...]
    valid_until: datetime | None
    disabled: bool


def import_users(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    content: str,
    seal_for_chap: Seal | None = None,
    seal_for_mschap: Seal | None = None,
) -> int:
    """How many were added. Raises InvalidUserFile with every mistake, before anything is stored."""
    rows = _Reader(session, tenant_id).read(content)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashes = list(pool.map(hash_password, [row.password for row in rows]))
    for row, password_hash in zip(rows, hashes, strict=True):
        users.store_user(
            session,
            actor=actor,
            tenant_id=tenant_id,
            name=row.name,
            password=row.password,
            password_hash=password_hash,
            groups=row.groups,
            valid_until=row.valid_until,
            seal_for_chap=seal_for_chap,
            seal_for_mschap=seal_for_mschap,
            disabled=row.disabled,
        )
    return len(rows)


class _Reader:
    def __init__(self, session: Session, tenant_id: TenantId) -> None:
        self._session = session
        self._tenant_id = tenant_id
        self._groups = {group.name for group in USER_GROUPS.list_all(session, tenant_id=tenant_id)}
        self._mistakes: list[Mistake] = []
        self._lines: dict[str, int] = {}

    def read(self, content: str) -> list[_Row]:
        reader = csv.DictReader(StringIO(content.removeprefix("\ufeff"), newline=""), strict=True)
        rows = []
        try:
            self._check_columns(reader.fieldnames or ())
            for count, fields in enumerate(reader, start=1):
                if count > MOST_ROWS:
                    raise InvalidUserFile([Mistake(reader.line_num, "", f"a file has at most {MOST_ROWS} users")])
                rows.append(self._row(reader.line_num, fields))
        except csv.Error as exc:
            self._mistakes.append(Mistake(reader.line_num, "", f"no CSV: {exc}"))
        if not rows and not self._mistakes:
            self._mistakes.append(Mistake(1, "", "no user follows"))
        if self._mistakes:
            raise InvalidUserFile(self._mistakes)
        return rows

    def _check_columns(self, names: Iterable[str]) -> None:
        names = list(names)
        found = [Mistake(1, name, "is missing") for name in _NEEDED if name not in names]
        found += [
            Mistake(1, name, f"is no column; there are: {', '.join(_COLUMNS)}")
            for name in names
            if name not in _COLUMNS
        ]
        found += [Mistake(1, name, "comes twice") for name in set(names) if names.count(name) > 1]
        if found:
            raise InvalidUserFile(found)

    def _row(self, line: int, fields: Mapping[str | None, object]) -> _Row:
        if None in fields or None in fields.values():
            self._mistakes.append(Mistake(line, "", "has not as many values as the first line has columns"))
            return _Row("", "", (), None, False)
        values = {str(name): str(value) for name, value in fields.items()}
        return _Row(
            self._name(line, values["name"]),
            self._password(line, values["password"]),
            self._known_groups(line, values.get("groups", "")),
            self._valid_until(line, values.get("valid_until", "")),
            self._disabled(line, values.get("disabled", "")),
        )

    def _name(self, line: int, text: str) -> str:
        try:
            name = users.require_user_name(text)
        except AdmitError as exc:
            self._refuse(line, "name", exc)
            return ""
        if name in self._lines:
            self._mistakes.append(Mistake(line, "name", f"{name!r} is in line {self._lines[name]} already"))
        elif repository.get_by_name(self._session, self._tenant_id, name):
            self._mistakes.append(Mistake(line, "name", f"there is a user {name!r} already"))
        self._lines.setdefault(name, line)
        return name

    def _password(self, line: int, text: str) -> str:
        try:
            users.require_password(text)
        except AdmitError as exc:
            self._refuse(line, "password", exc)
        return text

    def _known_groups(self, line: int, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(";") if name.strip())
        for name in names:
            if name not in self._groups:
                self._mistakes.append(
                    Mistake(line, "groups", f"no such group: {name!r}; add it first: ./admit user-group add")
                )
        return names

    def _valid_until(self, line: int, text: str) -> datetime | None:
        if not text.strip():
            return None
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            self._mistakes.append(Mistake(line, "valid_until", f"{text!r} is no date such as 2027-01-31T18:00"))
            return None
        try:
            return require_future(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except AdmitError as exc:
            self._refuse(line, "valid_until", exc)
            return None

    def _disabled(self, line: int, text: str) -> bool:
        found = _TRUTH.get(text.strip().casefold())
        if found is None:
            self._mistakes.append(Mistake(line, "disabled", f"{text!r} is neither yes nor no"))
        return bool(found)

    def _refuse(self, line: int, column: str, exc: AdmitError) -> None:
        self._mistakes.append(Mistake(line, column, f"{exc.detail} {exc.remedy}".rstrip()))
