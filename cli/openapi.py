"""The API's description as it is promised, in docs/openapi.json: `python -m cli.openapi [--write [--breaking]]`.

Compares it with what the code says now; a test does too, so that nobody breaks a promise without knowing.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from api.description import describe
from api.routes import add_routes
from api.v1.routers import ROUTES
from cli.openapi_changes import changes

PROMISED = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"
REMEDY = ".venv/bin/python -m cli.openapi --write, and --breaking where docs/reference/api.md allows it"


def description() -> dict[str, Any]:
    """As /openapi.json tells of /v1, without an installation."""
    return application().openapi()


def application() -> FastAPI:
    app = FastAPI(title="Admit")
    add_routes(app, ROUTES)
    describe(app)
    return app


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    now = description()
    promised = json.loads(PROMISED.read_text(encoding="utf-8")) if PROMISED.exists() else {"paths": {}}
    found = changes(promised, now)
    for change in found:
        print(change)
    breaking = any(change.breaking for change in found)
    if "--write" in arguments and (not breaking or "--breaking" in arguments):
        PROMISED.write_text(text(now), encoding="utf-8")
        return 0
    same = PROMISED.exists() and PROMISED.read_text(encoding="utf-8") == text(now)
    print("docs/openapi.json is as the code says" if same else f"docs/openapi.json is not as the code says: {REMEDY}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
