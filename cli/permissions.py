"""docs/reference/permissions.md as the code says it: `python -m cli.permissions [--write]`. A test compares the two."""

import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from api.access import Requires
from api.described import routes
from cli.openapi import application
from nac.accounts.effects import Declared, Effect, Pair, pairs, reach
from nac.accounts.permissions import Level, Permission, permissions_at
from nac.accounts.roles import ROLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "permissions.md"
REMEDY = ".venv/bin/python -m cli.permissions --write"
_WORDS = Path(routes.__file__).with_name("permissions.toml")
_LEVELS = {Level.TENANT: "tenant", Level.MSP: "MSP", Level.PLATFORM: "platform"}
_OF_TENANTS = permissions_at(Level.TENANT)
_HEAD = """\
# Permissions
Each operation of the API asks for one permission, on the tenant, the MSP or the platform that its path names.
People have permissions from their roles as members, programs from their tokens.

This page is made by `python -m cli.permissions --write`. A role or token gives a permission on its own place and on all
below it: an MSP's on its tenants, the platform's everywhere.

| role | what it is for |
|---|---|
"""
_EFFECTS = """
## What operations lead to
Each operation that changes something declares the effects that it can have (`api/v1`). An effect takes one of the
permissions that guard it (`nac/accounts/effects.py`). A test refuses an operation that asks for none of them, and one
that writes what it does not declare.

| effect | meaning | operations |
|---|---|---|"""
_ALONE = """
## What one permission leads to
With this permission and no other.

| permission | effects |
|---|---|"""
_PAIRS = """
## What two permissions lead to
This is derived from all pairs of permissions. The pairs below lead to more than each of the two does.

| permission | with | effects |
|---|---|---|"""
_SEVERAL = """
## Operations that take several permissions
The description of the operation says which requests take more. A template takes, at each tenant, what its parts take.

| operation | every request takes | some requests take as well |
|---|---|---|"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    words = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    asked = _asked()
    yield _HEAD.rstrip("\n")
    yield from (f"| `{role.slug}` | {role.told} |" for role in ROLES.values())
    for level, name in _LEVELS.items():
        yield from ("", f"## Of a {name}" if level is not Level.MSP else f"## Of an {name}", "")
        yield from ("| permission | allows | roles | operations |", "|---|---|---|---|")
        for permission in Permission:
            if permission.level is level:
                roles = ", ".join(f"`{role.slug}`" for role in ROLES.values() if permission in role.permissions)
                operations = (
                    ", ".join(f"`{each}`" for each in sorted(asked[permission])) or "none: commands on the server"
                )
                yield f"| `{permission}` | {words[permission]} | {roles} | {operations} |"
    yield from _effects()


def _asked() -> dict[Permission, set[str]]:
    asked: dict[Permission, set[str]] = defaultdict(set)
    for told in routes.routes_of(application()).values():
        if isinstance(told.asks, Requires):
            asked[told.asks.permission].add(told.operation_id)
    return asked


def declared() -> list[Declared]:
    """What each route that names a permission says that it can lead to."""
    return [
        Declared(told.operation_id, told.asks.always, told.asks.also, told.asks.leads_to)
        for told in routes.routes_of(application()).values()
        if isinstance(told.asks, Requires)
    ]


def _effects() -> Iterator[str]:
    found = declared()
    yield from _EFFECTS.splitlines()
    for effect in Effect:
        operations = _listed(route.operation for route in found if effect in route.leads_to)
        yield f"| `{effect.name.lower()}` | {effect} | {operations} |"
    yield from _ALONE.splitlines()
    for permission in Permission:
        if effects := {each.effect.name.lower() for each in reach(found, permission)}:
            yield f"| `{permission}` | {_listed(effects)} |"
    yield from _PAIRS.splitlines()
    for pair in pairs(found):
        yield f"| `{pair.first}` | `{pair.second}` | {' '.join((*pair.chains, *_by_effect(pair)))} |"
    yield from _SEVERAL.splitlines()
    for route in sorted(found, key=lambda route: route.operation):
        if len(route.always) > 1 or route.also:
            every = "every permission at the place" if route.always >= _OF_TENANTS else _listed(route.always)
            yield f"| `{route.operation}` | {every} | {_listed(route.also - route.always) or '-'} |"


def _by_effect(pair: Pair) -> Iterator[str]:
    for effect in sorted({each.effect for each in pair.reached}):
        operations = _listed(each.operation for each in pair.reached if each.effect is effect)
        yield f"`{effect.name.lower()}` by {operations}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
    print(f"{PAGE.name} matches the code" if same else f"{PAGE.name} does not match the code: {REMEDY}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
