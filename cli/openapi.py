"""Writes the API's OpenAPI document without an installation: `python -m cli.openapi [FILE]`."""

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from api.openapi_document import install_openapi
from api.routes import add_routes
from api.v1.routers import ROUTES, V1


def description() -> dict[str, Any]:
    """Return the OpenAPI document of the operations under /v1."""
    return application().openapi()


def application() -> FastAPI:
    app = FastAPI(title="Admit")
    add_routes(app, ROUTES)
    install_openapi(app, V1)
    return app


def text() -> str:
    return json.dumps(description(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    if arguments:
        Path(arguments[0]).write_text(text(), encoding="utf-8")
    else:
        sys.stdout.write(text())


if __name__ == "__main__":
    main(sys.argv[1:])
