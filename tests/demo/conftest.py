"""What the tools said of a real cell, and the demo on a real database without a cell."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from sqlalchemy import Engine

from cli.domain import Domain
from nac.secrets import MasterKeyFile, Sealer
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.lasting import lasting_engine
from tests.postgres import Database

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    """Output of eapol_test or radclient against the demo's cell; of the former, the lines that tell what happened."""
    return (RECORDED / f"{name}.txt").read_text()


@pytest.fixture
def domain(
    database: Database, cell_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Domain]:
    """An installation whose cell has registered and died: nothing answers."""
    for name in [name for name in os.environ if name.startswith("ADMIT_")]:
        monkeypatch.delenv(name)
    key = MasterKeyFile.create(tmp_path / "master.key")
    values = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_OWNER_URL": database.owner_url,
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
    give_dictionary(cell_engine, make_cell(cell_engine, slots=4, seal_with=Sealer(key).seal))
    with click.Context(click.Command("demo")):
        yield Domain()
