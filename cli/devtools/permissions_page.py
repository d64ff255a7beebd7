"""Generates docs/reference/permissions.md: `python -m cli.devtools.permissions_page [--write]`.

A test compares page and code.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

from api.access import RequiresPermission
from api.described import described_routes
from cli.devtools.generated_page import GeneratedPage
from cli.openapi import application
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.effects import PermissionPair, RouteDeclaration, find_permission_pairs, find_reached_effects
from nac.kit.permissions import Effect, Permission, PermissionLevel, permissions_at

_LEVELS = {PermissionLevel.TENANT: "a tenant", PermissionLevel.MSP: "an MSP", PermissionLevel.PLATFORM: "the platform"}
_OF_TENANTS = permissions_at(PermissionLevel.TENANT)
_HEAD = """\
# Permissions
This page lists the roles, their permissions, and the operations of the API that need each
permission.

* The caller of an operation needs the operation's permission on the tenant, MSP or platform in the
  path of the request.
* A person has the permissions of their roles as a member. A program has the permissions of its
  token.
* A permission on an MSP also applies to all tenants of the MSP. A permission on the platform
  applies to all MSPs and tenants.

`.venv/bin/python -m cli.devtools.permissions_page --write` generates this page.

## Roles

| role | purpose |
|---|---|
"""
_EFFECTS = """
## Effects of operations
An effect is a kind of change or access, such as the deletion of data. `nac/kit/permissions.py`
lists which permissions guard each effect. Each operation declares its effects in `api/v1`. For each
declared effect, the operation needs at least one of the permissions that guard this effect. Tests
fail if an operation needs no permission for an effect, or if an operation has an undeclared effect.

| effect | meaning | operations |
|---|---|---|"""
_ALONE = """
## Effects of one permission
This table lists the effects that a token or role can have if it has only one permission.

| permission | effects |
|---|---|"""
_PAIRS = """
## Effects of two permissions
This table lists the additional effects of a token or role that has both permissions of a row. Each
entry names the effect and the operations that have the effect.

| first permission | second permission | additional effects |
|---|---|---|"""
_SEVERAL = """
## Operations with several permissions
The description of an operation in `/openapi.json` lists which requests need more than one
permission. To roll out a template, you need the permissions for the parts of the template at each
tenant.

| operation | every request needs | some requests also need |
|---|---|---|"""


def _lines() -> Iterator[str]:
    operation_ids = _operations_by_permission()
    yield _HEAD.rstrip("\n")
    yield from (f"| `{role.slug}` | {role.description} |" for role in BUILT_IN_ROLES.values())
    for level, name in _LEVELS.items():
        yield from ("", f"## Permissions of {name}", "")
        yield from ("| permission | allows | roles | operations |", "|---|---|---|---|")
        for permission in Permission:
            if permission.level is level:
                roles = ", ".join(
                    f"`{role.slug}`" for role in BUILT_IN_ROLES.values() if permission in role.permissions
                )
                operations = (
                    ", ".join(f"`{each}`" for each in sorted(operation_ids[permission]))
                    or "none, only commands on the server"
                )
                yield f"| `{permission}` | {permission.about} | {roles} | {operations} |"
    yield from _effects()


def _operations_by_permission() -> dict[Permission, set[str]]:
    operation_ids: dict[Permission, set[str]] = defaultdict(set)
    for route in described_routes.collect_routes(application()).values():
        if isinstance(route.asks, RequiresPermission):
            operation_ids[route.asks.permission].add(route.operation_id)
    return operation_ids


def list_declared_effects() -> list[RouteDeclaration]:
    return [
        RouteDeclaration(route.operation_id, route.asks.always, route.asks.also, route.asks.leads_to)
        for route in described_routes.collect_routes(application()).values()
        if isinstance(route.asks, RequiresPermission)
    ]


def _effects() -> Iterator[str]:
    declarations = list_declared_effects()
    yield from _EFFECTS.splitlines()
    for effect in Effect:
        operations = _listed(route.operation for route in declarations if effect in route.leads_to)
        yield f"| `{effect.name.lower()}` | {effect} | {operations} |"
    yield from _ALONE.splitlines()
    for permission in Permission:
        if effects := {each.effect.name.lower() for each in find_reached_effects(declarations, permission)}:
            yield f"| `{permission}` | {_listed(effects)} |"
    yield from _PAIRS.splitlines()
    for pair in find_permission_pairs(declarations):
        yield f"| `{pair.first}` | `{pair.second}` | {' '.join((*pair.chains, *_by_effect(pair)))} |"
    yield from _SEVERAL.splitlines()
    for route in sorted(declarations, key=lambda route: route.operation):
        if len(route.always) > 1 or route.also:
            every = "all permissions at this level" if route.always >= _OF_TENANTS else _listed(route.always)
            yield f"| `{route.operation}` | {every} | {_listed(route.also - route.always) or '-'} |"


def _by_effect(pair: PermissionPair) -> Iterator[str]:
    for effect in sorted({each.effect for each in pair.reached}):
        operations = {each.operation for each in pair.reached if each.effect is effect}
        noun = "operation" if len(operations) == 1 else "operations"
        yield f"Effect `{effect.name.lower()}`, by the {noun} {_listed(operations)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))


PAGE = GeneratedPage("permissions.md", "cli.devtools.permissions_page", _lines)

if __name__ == "__main__":
    sys.exit(PAGE.run_command())
