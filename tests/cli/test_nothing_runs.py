"""Commands that need a running instance, in a checkout where nothing was started or all has stopped."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import admit
from tests.cli.test_ports import free_port

STOPPED = "Error: Admit is not running. Start Admit: ./admit up\n"
# A command that each uses the API, the database or the files in another way.
COMMANDS = (
    ("decisions", "-t", "alpha"),
    ("demo",),
    ("demo", "--json"),
    ("tenant", "list"),
    ("tenant", "create", "alpha"),
    ("tenant", "delete", "alpha"),
    ("policy", "list", "-t", "alpha"),
    ("cert", "issue", "-t", "alpha", "--profile", "device", "--name", "laptop", "--out", "{var}/out"),
)
LOGS = ("logs",)


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state after `./admit down`."""
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    layout = {"run": str(tmp_path), "postgres": str(tmp_path), "database_account": None, "is_separated": False}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    url = f"postgresql://admit_app@/admit?host={tmp_path}"
    # A port that another installation on this machine does not use.
    port = free_port(socket.SOCK_STREAM)
    (tmp_path / "admit.env").write_text(f"ADMIT_VAR_DIR={tmp_path}\nADMIT_DATABASE_URL={url}\nADMIT_API_PORT={port}\n")
    for name in ("ADMIT_DATABASE_URL", "ADMIT_MASTER_KEY_FILE", "ADMIT_API_PORT"):
        # Save the environment, so that changes by the command are undone.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "was_started"), [*((each, True) for each in COMMANDS), *((each, False) for each in (*COMMANDS, LOGS))]
)
def test_stopped_instance_error_says_how_to_start(ended: Path, command: tuple[str, ...], was_started: bool) -> None:
    if not was_started:
        (ended / "admit.env").unlink()
        (ended / "log").mkdir()
    result = CliRunner().invoke(admit, [word.format(var=ended) for word in command])
    assert (result.exit_code, result.stderr) == (1, STOPPED)
    assert ("nothing-runs" in result.stdout) if "--json" in command else (result.stdout == "")
    assert not (ended / "out").exists()


@pytest.mark.parametrize("command", [("tenant", "list"), LOGS])
def test_never_started_error_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path / "var"))
    result = CliRunner().invoke(admit, command)
    assert (result.exit_code, result.stderr) == (1, STOPPED)
