"""Description of a noun: its operations and things. Each module of tests/isolation/nouns has one."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Engine, Table, select
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner

_NAME = re.compile(r"\$(\w+)")
_PARAMETER = re.compile(r"\{(\w+)\}")
_LEVELS = ("Tenant", "Msp", "Platform")

# Things of a place by name, such as `site` and `pool`.
Things = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """A valid request, with `$names` for things of the caller, and its number of SQL statements.

    `path` names the thing of a parameter if it is not the one of the same name.
    """

    # Includes the audit entry and the check whether the change is live, not begin, scope and end of a transaction. None
    # if the request fails here.
    statements: int | None = None
    body: Any = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    content: str = ""
    # The expected error, if the current state does not allow the operation.
    status: int = 0

    def names(self, path: str) -> list[str]:
        """Names of the things in it, those of the path first."""
        found = [self.path.get(name, name) for name in _PARAMETER.findall(path)]
        _collect([self.body, dict(self.query), self.content], found)
        return list(dict.fromkeys(found))

    def path_names(self, path: str) -> list[str]:
        """Names of its parameters."""
        return _PARAMETER.findall(path)

    def asked(self, path: str, things: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as a `Caller` sends it."""
        filled = _PARAMETER.sub(lambda found: str(things[self.path.get(found[1], found[1])]), path)
        asked: dict[str, Any] = {"path": f"/v1{filled}"}
        if self.body is not None:
            asked["body"] = _fill(self.body, things)
        if self.content:
            asked["content"] = str(_fill(self.content, things)).encode()
        if self.query:
            asked["query"] = _fill(dict(self.query), things)
        return asked


@dataclass(frozen=True)
class Filler:
    """Creates things."""

    # Sends an operation with all permissions, and returns the successful response.
    ask: Callable[[str, Mapping[str, Any]], Any]
    # Reaches each table.
    owner: Engine
    cell_id: int
    exports: Path
    # Things of each place, by its slug.
    things: Mapping[str, Things]

    def ask_at(self, owner: Owner, name: str, things: Things) -> Any:
        """Send the operation of the owner's level, such as createMspRole for `create{}Role`."""
        return self.ask(name.format(owner.level.name.title()), things)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Transaction for rows that time or radiusd would create."""
        with Session(self.owner) as session, session.begin():
            yield session


@dataclass(frozen=True, kw_only=True)
class Noun:
    operations: Mapping[str, Operation]
    # Things with a fixed value. Text is a pattern with the `mark` and `number` of their place.
    things: Mapping[str, Any] = field(default_factory=dict)
    # Things with a name: `site` is site-acme-1.
    names: tuple[str, ...] = ()
    # Unknown values of the things that the functions below create.
    unknown: Mapping[str, Any] = field(default_factory=dict)
    # Nouns whose things the functions below need.
    after: tuple[str, ...] = ()
    # Creates things of a tenant, an MSP or the platform.
    fill_owner: Callable[[Filler, Things, Owner], None] | None = None
    # Creates things of a tenant, after those of each owner.
    fill_tenant: Callable[[Filler, Things], None] | None = None
    # Creates things of an MSP, after those of its tenants.
    fill_msp: Callable[[Filler, Things], None] | None = None


def at_levels(name: str, statements: tuple[int, ...], body: Any = None, **more: Any) -> dict[str, Operation]:
    """The same request for a tenant, an MSP and, with a third number of statements, the platform."""
    levels = zip(_LEVELS, statements, strict=False)
    return {name.format(level): Operation(number, body, **more) for level, number in levels}


def unknown_ids(*names: str) -> dict[str, str]:
    return {name: str(uuid4()) for name in names}


def unknown_numbers(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, 987_654_321)


def find_log_entry(session: Session, log: Table, things: Things) -> str:
    """Id of the tenant's only entry, as the API names it."""
    at, number = session.execute(select(log.c.at, log.c.id).where(log.c.tenant_id == things["tenant_id"])).one()
    return f"{int(at.timestamp() * 1_000_000)}-{number}"


def _collect(value: Any, found: list[str]) -> None:
    match value:
        case str():
            found += _NAME.findall(value)
        case list():
            for each in value:
                _collect(each, found)
        case dict():
            for name, each in value.items():
                _collect([name, each], found)


def _fill(value: Any, things: Mapping[str, Any]) -> Any:
    match value:
        case str():
            whole = _NAME.fullmatch(value)
            return things[whole[1]] if whole else _NAME.sub(lambda name: str(things[name[1]]), value)
        case list():
            return [_fill(each, things) for each in value]
        case dict():
            return {_fill(name, things): _fill(each, things) for name, each in value.items()}
    return value
