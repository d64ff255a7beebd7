"""`./admit` in this process, on a real database and without a cell."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from cli.main import admit
from nac.models import Cell
from nac.secrets import MasterKeyFile, Sealer
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.lasting import lasting_engine
from tests.postgres import Database


class Admit:
    """`./admit`, in this process."""

    def run(self, *arguments: str, text: str = "") -> Result:
        return CliRunner().invoke(admit, arguments, input=text)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def cli(database: Database, cell_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admit:
    for name in [name for name in os.environ if name.startswith("ADMIT_")]:
        monkeypatch.delenv(name)
    key = MasterKeyFile.create(tmp_path / "master.key")
    values = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_MASTER_KEY_FILE": str(tmp_path / "master.key"),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    layout = {"run": str(tmp_path), "postgres": str(tmp_path), "database_account": None, "account": None}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    (tmp_path / "admit.env").touch()
    # No cell confirms anything here; one look is enough.
    monkeypatch.setattr("cli.domain._LIVE_SECONDS", 0)
    monkeypatch.setattr("cli.domain.make_engine", lasting_engine)
    make_cell(cell_engine, slots=2, seal_with=Sealer(key).seal)
    return Admit()


@pytest.fixture
def alpha(cli: Admit) -> Admit:
    cli.json("msp", "create", "acme")
    cli.json("tenant", "create", "alpha")
    return cli


@pytest.fixture
def with_dictionary(alpha: Admit, owner_engine: Engine, cell_engine: Engine) -> Admit:
    """Alpha in a cell that has told what its radiusd knows, without which no reply is checked."""
    with Session(owner_engine) as session:
        cell_id = session.scalars(select(Cell.id)).one()
    give_dictionary(cell_engine, cell_id)
    return alpha
