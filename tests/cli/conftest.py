"""`./admit` in this process, on a real API and database and without a cell."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from fastapi import FastAPI
from sqlalchemy import Engine

from api.main import create_app
from cli.main import admit
from nac.accounts.operator_tokens import get_key_file, make_key
from tests.api.app_server import serve_app_on_port, settings_of_public
from tests.factories.certificates import SEALER, write_master_key
from tests.factories.tenancy import make_cell
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore
from tests.shared_engines import shared_engine


class ServedApi(NamedTuple):
    app: FastAPI
    port: str
    key: Path

    def configure(self, database: Database, folder: Path, **variables: str) -> None:
        """Use these settings and the folder of an installation until the next call."""
        self.app.state.settings = settings_of_public(database, folder, ADMIT_VAR_DIR=str(folder), **variables)


class Admit:
    """`./admit` in this process."""

    def run(self, *arguments: str, text: str = "") -> Result:
        return CliRunner().invoke(admit, arguments, input=text)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def served_app(migrated_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    """The API on a port, with the operator key of an installation."""
    folder = tmp_path_factory.mktemp("api")
    key = get_key_file(folder)
    key.parent.mkdir()
    key.write_text(make_key())
    app = create_app(settings_of_public(migrated_database, folder, ADMIT_VAR_DIR=str(folder)))
    with serve_app_on_port(app) as url:
        yield ServedApi(app, url.rpartition(":")[2], key)


@pytest.fixture
def installation(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served_app: ServedApi
) -> pytest.MonkeyPatch:
    """Settings and operator key of an installation with the API. No cell confirms anything here."""
    for name in [name for name in os.environ if name.startswith("ADMIT_")]:
        monkeypatch.delenv(name)
    values = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(tmp_path)),
        "ADMIT_API_PORT": served_app.port,
    }
    operator_key = get_key_file(tmp_path)
    operator_key.parent.mkdir()
    operator_key.write_bytes(served_app.key.read_bytes())
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    layout = {"run": str(tmp_path), "postgres": str(tmp_path), "database_account": None, "is_separated": False}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    (tmp_path / "admit.env").touch()
    # The API reads settings at each request. Its files are those of this installation.
    served_app.configure(database, tmp_path)
    # One check is enough.
    monkeypatch.setattr("cli.command_context._LIVE_SECONDS", 0)
    monkeypatch.setattr("cli.remote.commands._QUEUE_SECONDS", 0)
    monkeypatch.setattr("api.change._LIVE_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr("cli.command_context.make_engine", shared_engine)
    return monkeypatch


@pytest.fixture
def cli(standing: SnapshotStore, cell_engine: Engine, installation: pytest.MonkeyPatch) -> Admit:
    standing(make_cell, cell_engine, slots=2, seal_with=SEALER.seal)
    return Admit()


def make_alpha() -> None:
    Admit().json("msp", "create", "acme")
    Admit().json("tenant", "create", "alpha", "--policy", "none")


@pytest.fixture
def alpha(standing: SnapshotStore, cli: Admit) -> Admit:
    standing(make_alpha)
    return cli
