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
from tests.factories.certificates import SEALER, write_master_key
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore
from tests.shared_engines import shared_engine


class Admit:
    """`./admit` in this process."""

    def run(self, *arguments: str, text: str = "") -> Result:
        return CliRunner().invoke(admit, arguments, input=text)

    def json(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def cli(
    database: Database, standing: SnapshotStore, cell_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Admit:
    for name in [name for name in os.environ if name.startswith("ADMIT_")]:
        monkeypatch.delenv(name)
    values = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(tmp_path)),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    layout = {"run": str(tmp_path), "postgres": str(tmp_path), "database_account": None, "is_separated": False}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    (tmp_path / "admit.env").touch()
    # No cell confirms anything here, so one check is enough.
    monkeypatch.setattr("cli.command_context._LIVE_SECONDS", 0)
    monkeypatch.setattr("cli.command_context.make_engine", shared_engine)
    standing(make_cell, cell_engine, slots=2, seal_with=SEALER.seal)
    return Admit()


def make_alpha() -> None:
    Admit().json("msp", "create", "acme")
    Admit().json("tenant", "create", "alpha")


@pytest.fixture
def alpha(standing: SnapshotStore, cli: Admit) -> Admit:
    standing(make_alpha)
    return cli


@pytest.fixture
def with_dictionary(alpha: Admit, standing: SnapshotStore, owner_engine: Engine, cell_engine: Engine) -> Admit:
    """Alpha in a cell that has reported radiusd's dictionary. Replies are checked only with one."""
    with Session(owner_engine) as session:
        cell_id = session.scalars(select(Cell.id)).one()
    standing(give_dictionary, cell_engine, cell_id)
    return alpha
