"""The state of a cell at the command line: `./admit status`, and a change that radiusd does not apply.

tests/whole/test_up.py covers the processes, and applied changes.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from cli.commands.status import _show_cell
from cli.layout import CHECKOUT
from cli.procfs import started_at
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


def test_reason_of_a_missing_change_is_named(settings: Settings, sealer: Sealer, cell_id: CellId) -> None:
    assert "on another machine" in complaint(settings, sealer, CellId(cell_id + 1))
    assert "does not report: ./admit status" in complaint(settings, sealer, cell_id)
    report(settings, seconds_ago=60)
    assert "does not report: ./admit status" in complaint(settings, sealer, cell_id)
    report(settings, alarms=[exchange_alarm(seconds_ahead=1)])
    assert complaint(settings, sealer, cell_id).endswith("radiusd says no")
    # The alarm is older than the change, which is only slow.
    report(settings, alarms=[exchange_alarm(seconds_ahead=-60)])
    assert complaint(settings, sealer, cell_id).endswith("See the reason in the alarms: ./admit status")


COUNTERS = {"access_requests": 207, "auth_dropped": 0, "auth_shipped": 102, "radiusd_log_bad_message_authenticator": 4}


def shown(capsys: pytest.CaptureFixture[str], **values: object) -> list[str]:
    _show_cell({"cell": "cell-1", "at": utc_now().isoformat(), "state": "serving"} | values)
    return capsys.readouterr().out.splitlines()


def test_counters_have_their_owner_and_start_time(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, counters=COUNTERS, radiusd_pid=os.getpid(), agent_pid=os.getpid())
    began = f"{datetime.fromtimestamp(started_at(os.getpid()), UTC):%Y-%m-%d %H:%M:%S} UTC"
    first = lines.index(f"  counted since the last start of radiusd, at {began}")
    assert lines[first + 1].strip() == "access_requests 207"
    assert lines[first + 2] == f"  counted since the last start of the agent, at {began}"
    assert lines[first + 3].strip() == "auth_shipped 102, radiusd_log_bad_message_authenticator 4"


def test_lines_are_short_and_do_not_split_a_counter(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, counters={f"radiusd_log_some_event_{number}": 10**9 for number in range(40)})
    assert max(map(len, lines)) <= 100
    assert sum(line.count(" 1000000000") for line in lines) == 40
    assert not [line for line in lines if line.strip().startswith("1000000000")]


def test_empty_counters_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, counters={"access_requests": 0})
    assert lines[lines.index("  counted since the last start of radiusd") + 1].strip() == "nothing"


def test_verifier_shows_its_memory_or_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert any(line.startswith(f"  verifier  pid {os.getpid()}, ") for line in shown(capsys, verifier_pid=os.getpid()))
    assert "  verifier  does not run" in shown(capsys)


def test_status_loads_no_database_libraries() -> None:
    libraries = {"cryptography", "psycopg", "sqlalchemy"}
    code = f"import sys; import cli.commands.status; print(sys.modules.keys() & {libraries})"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")
