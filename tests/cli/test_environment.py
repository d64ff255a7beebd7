"""The environment that `./admit up` builds for its processes, and its file."""

from pathlib import Path

import pytest

from cli import envfile, environment
from cli.errors import Refused
from cli.layout import Layout
from cli.passwords import Passwords
from nac.kit.settings import load_settings


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, tmp_path / "run", tmp_path / "postgres", None, None)


def up(layout: Layout, **choices: str) -> bool:
    """Return whether trials are offered after `./admit up` with these choices."""
    given = {f"ADMIT_{name}": value for name, value in choices.items()}
    values = environment.compose(layout, given, Passwords(b"seed"))
    envfile.write(layout.env_file, values)
    return load_settings(values).trials.offered


def test_trials_follow_the_demo_between_runs(layout: Layout) -> None:
    assert up(layout)
    assert up(layout)
    assert not up(layout, DEMO="no")
    assert not up(layout)
    assert up(layout, DEMO="yes")
    assert not up(layout, LISTEN_ADDRESS="192.0.2.7")


def test_manually_enabled_trials_stay_without_the_demo(layout: Layout) -> None:
    up(layout, DEMO="no")
    envfile.write(layout.env_file, envfile.read(layout.env_file) | {"ADMIT_TRIALS": "yes"})
    assert up(layout)
    assert up(layout, LISTEN_ADDRESS="192.0.2.7")


def test_written_file_is_private_and_read_again(tmp_path: Path):
    file, victim = tmp_path / "admit.env", tmp_path / "victim"
    assert envfile.read(file) == {}
    victim.write_text("untouched")
    file.symlink_to(victim)
    values = {"ADMIT_VAR_DIR": "/var/x", "ADMIT_DATABASE_URL": "postgresql://admit_app@/admit?host=/run/x", "EMPTY": ""}
    envfile.write(file, values)
    assert envfile.read(file) == values
    assert (victim.read_text(), file.is_symlink(), file.stat().st_mode & 0o777) == ("untouched", False, 0o600)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("A=1\nnonsense\n", "f:2: Invalid line 'nonsense'. Use KEY=value"),
        ("a=1\n", "f:1: Invalid line 'a=1'. Use KEY=value"),
        ("A=1\n\n# note\nA=2\n", "f:4: A is set twice"),
    ],
)
def test_invalid_line_is_rejected_with_its_number(text: str, complaint: str):
    with pytest.raises(Refused) as caught:
        envfile.parse(text, place="f")
    assert str(caught.value).startswith(complaint)


def test_environment_overrides_the_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ADMIT_CELL_SLOTS", "8")
    merged = envfile.with_process_environment({"ADMIT_CELL_SLOTS": "32", "ADMIT_API_PORT": "1"})
    assert merged["ADMIT_CELL_SLOTS"] == "8"
    assert merged["ADMIT_API_PORT"] == "1"
