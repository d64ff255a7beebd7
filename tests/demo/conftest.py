"""Recorded output of the tools against a real cell, and the demo on a real database without a cell."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from sqlalchemy import Engine

from cli.command_context import CommandContext
from cli.demo.seed import Demo, seed
from nac.kit.secrets import MasterKeyFile, Sealer
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import make_cell
from tests.postgres import Database
from tests.row_snapshots import SnapshotStore
from tests.shared_engines import shared_engine

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    """Output of eapol_test or radclient against the demo's cell. For eapol_test, only the lines about events."""
    return (RECORDED / f"{name}.txt").read_text()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder and a master key that all installations share, so that each can use saved data of another."""
    home = tmp_path_factory.mktemp("demo") / "home"
    MasterKeyFile.create(home.parent / "master.key")
    return home


@pytest.fixture
def domain(
    database: Database, cell_engine: Engine, standing: SnapshotStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandContext]:
    """An installation whose cell has registered and was killed, so nothing responds."""
    for name in [name for name in os.environ if name.startswith("ADMIT_")]:
        monkeypatch.delenv(name)
    home.mkdir()
    key_file = home / "master.key"
    shutil.copy2(home.parent / key_file.name, key_file)
    values = {
        "ADMIT_VAR_DIR": str(home),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_OWNER_URL": database.owner_url,
        "ADMIT_MASTER_KEY_FILE": str(key_file),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    layout = {"run": str(home), "postgres": str(home), "database_account": None, "is_separated": False}
    (home / "layout.json").write_text(json.dumps(layout))
    (home / "admit.env").touch()
    # No cell confirms a change, so one check is enough.
    monkeypatch.setattr("cli.command_context._LIVE_SECONDS", 0)
    monkeypatch.setattr("cli.command_context.make_engine", shared_engine)
    standing(_register_cell, cell_engine, key_file)
    with click.Context(click.Command("demo")):
        yield CommandContext()
    shutil.rmtree(home)


def _register_cell(engine: Engine, key_file: Path) -> None:
    give_dictionary(engine, make_cell(engine, slots=4, seal_with=Sealer(MasterKeyFile(key_file)).seal))


@pytest.fixture
def seeded(domain: CommandContext, standing: SnapshotStore, home: Path) -> Demo:
    """The demo in `domain`: its rows and files are created, or restored from an earlier copy."""
    demo, copy = standing(_seed, home)
    made = home / "demo"
    if not made.exists():
        shutil.copytree(copy, made)
    return demo


def _seed(home: Path) -> tuple[Demo, Path]:
    """The demo, and a copy of its files that belongs to exactly these rows."""
    demo = seed(CommandContext())
    copy = Path(tempfile.mkdtemp(dir=home.parent)) / "demo"
    shutil.copytree(home / "demo", copy)
    return demo, copy
