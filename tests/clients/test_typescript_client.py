"""A TypeScript client by openapi-typescript and openapi-fetch: it compiles and talks to a real API."""

import shutil
from pathlib import Path

from tests.clients.client_tools import TYPESCRIPT, node_modules, run, write_description
from tests.clients.conftest import Api


def test_generated_typescript_client_talks_to_the_api(api: Api, tmp_path: Path) -> None:
    modules = node_modules()
    (tmp_path / "node_modules").symlink_to(modules)
    for name in ("package.json", "tsconfig.json", "round_trip.ts"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    run(
        "node",
        modules / "openapi-typescript" / "bin" / "cli.js",
        write_description(tmp_path),
        "-o",
        "schema.d.ts",
        folder=tmp_path,
    )
    run("node", modules / "typescript" / "bin" / "tsc", "-p", ".", folder=tmp_path)
    assert run("node", "round_trip.ts", *api, folder=tmp_path) == "round trip done\n"
