"""Checks the portal's types, style and unit tests: `python -m cli.devtools.portal_check`."""

import sys

from cli import openapi
from cli.node import NodeFailed
from cli.portal import FOLDER, link_packages, run_tool


def check() -> None:
    """Check the portal's types against the API's description, its style, and its unit tests. Raises NodeFailed."""
    link_packages(development=True)
    (FOLDER / "openapi.json").write_text(openapi.text(), encoding="utf-8")
    run_tool("openapi-typescript", "openapi.json", "-o", "src/api/schema.d.ts")
    for command in (("tsc", "--noEmit"), ("biome", "ci", "--colors=off"), ("vitest", "run")):
        run_tool(*command)


if __name__ == "__main__":
    try:
        check()
    except NodeFailed as exc:
        sys.exit(str(exc))
    sys.stdout.write("portal: checked\n")
