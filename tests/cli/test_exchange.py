"""Messages for a change that radiusd does not apply. tests/whole/test_up.py covers applied changes."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from cli.radiusd_exchange import NotInForceYet, wait_until_in_force
from nac.kit.clock import utc_now
from nac.kit.ids import CellId
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import Settings, load_settings
from radius.agent.paths import CellPaths, write_identity
from tests.factories.tenancy import make_cell
from tests.postgres import Database


@pytest.fixture
def sealer(tmp_path: Path) -> Sealer:
    return Sealer(MasterKeyFile.create(tmp_path / "master.key"))


@pytest.fixture
def cell_id(cell_engine: Engine, sealer: Sealer) -> CellId:
    return make_cell(cell_engine, slots=2, seal_with=sealer.seal)


@pytest.fixture
def settings(tmp_path: Path, database: Database, cell_id: CellId) -> Settings:
    made = load_settings({"ADMIT_VAR_DIR": str(tmp_path), "ADMIT_DATABASE_CELL_URL": database.cell_url})
    made.cell_dir.mkdir(parents=True)
    write_identity(CellPaths(made.cell_dir), cell_id)
    return made


def report(settings: Settings, *, seconds_ago: int = 0, **values: object) -> None:
    at = (utc_now() - timedelta(seconds=seconds_ago)).isoformat()
    (settings.cell_dir / "status.json").write_text(json.dumps({"at": at} | values))


def exchange_alarm(*, seconds_ahead: int) -> dict[str, str]:
    since = (utc_now() + timedelta(seconds=seconds_ahead)).isoformat()
    return {"code": "exchange", "detail": "radiusd says no", "since": since}


def complaint(settings: Settings, sealer: Sealer, cell_id: CellId) -> str:
    with pytest.raises(NotInForceYet) as raised:
        wait_until_in_force(settings, sealer, cell_id=cell_id, timeout_seconds=0.3)
    assert str(raised.value).startswith("The change is stored")
    return str(raised.value)


def test_cell_of_another_machine_is_not_visible(settings: Settings, sealer: Sealer, cell_id: CellId) -> None:
    assert "on another machine" in complaint(settings, sealer, CellId(cell_id + 1))


def test_agent_that_does_not_report_is_not_awaited(settings: Settings, sealer: Sealer, cell_id: CellId) -> None:
    assert "does not report: ./admit status" in complaint(settings, sealer, cell_id)
    report(settings, seconds_ago=60)
    assert "does not report: ./admit status" in complaint(settings, sealer, cell_id)


def test_failed_exchange_shows_the_radiusd_error(settings: Settings, sealer: Sealer, cell_id: CellId) -> None:
    report(settings, alarms=[exchange_alarm(seconds_ahead=1)])
    assert complaint(settings, sealer, cell_id).endswith("radiusd says no")


def test_slow_exchange_is_reported_as_pending(settings: Settings, sealer: Sealer, cell_id: CellId) -> None:
    report(settings, alarms=[exchange_alarm(seconds_ahead=-60)])
    assert complaint(settings, sealer, cell_id).endswith("See the reason in the alarms: ./admit status")
