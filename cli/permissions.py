"""docs/permissions.md as the code says it: `python -m cli.permissions [--write]`. A test compares the two."""

import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from api.access import Requires
from api.described import routes
from cli.openapi import application
from nac.accounts.permissions import Level, Permission
from nac.accounts.roles import ROLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "permissions.md"
REMEDY = ".venv/bin/python -m cli.permissions --write"
_WORDS = Path(routes.__file__).with_name("permissions.toml")
_LEVELS = {Level.TENANT: "tenant", Level.MSP: "MSP", Level.PLATFORM: "platform"}
_HEAD = """\
# Permissions
Each operation of the API asks for one permission, on the tenant, the MSP or the platform that its path names. What
anybody has comes from his roles (as a member) or from a token.

This page is made by `python -m cli.permissions --write`. A role or token gives a permission on its own place and on all
below it: an MSP's on its tenants, the platform's everywhere.

| role | what it is for |
|---|---|
"""


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


def _asked() -> dict[Permission, set[str]]:
    asked: dict[Permission, set[str]] = defaultdict(set)
    for told in routes.routes_of(application()).values():
        if isinstance(told.asks, Requires):
            asked[told.asks.permission].add(told.operation_id)
    return asked


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
    print(
        "docs/permissions.md is as the code says" if same else f"docs/permissions.md is not as the code says: {REMEDY}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
