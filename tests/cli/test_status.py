"""`./admit status` for a cell. `tests/whole/test_up.py` covers the processes."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from cli.commands.status import _show_cell
from cli.layout import CHECKOUT
from cli.procfs import started_at
from nac.kit.clock import utc_now

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
