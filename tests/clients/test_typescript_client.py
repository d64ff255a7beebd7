"""A TypeScript client by openapi-typescript and openapi-fetch: it compiles and talks to a real API."""

import shutil
from pathlib import Path

from cli.site.node_packages import install_packages, run_program
from tests.clients.client_tools import TYPESCRIPT, write_description
from tests.clients.conftest import Api


def test_generated_typescript_client_talks_to_the_api(api: Api, tmp_path: Path) -> None:
    modules = install_packages(TYPESCRIPT, name="typescript")
    (tmp_path / "node_modules").symlink_to(modules)
    for name in ("package.json", "tsconfig.json", "round_trip.ts"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    run_program(
        "node",
        modules / "openapi-typescript" / "bin" / "cli.js",
        write_description(tmp_path),
        "-o",
        "schema.d.ts",
        folder=tmp_path,
    )
    run_program("node", modules / "typescript" / "bin" / "tsc", "-p", ".", folder=tmp_path)
    assert run_program("node", "round_trip.ts", *api, folder=tmp_path) == "round trip done\n"
