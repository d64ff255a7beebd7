from pathlib import Path

import pytest

from cli import envfile
from cli.errors import Refused


def test_values_round_trip(tmp_path: Path):
    values = {"ADMIT_VAR_DIR": "/var/x", "ADMIT_DATABASE_URL": "postgresql://admit_app@/admit?host=/run/x", "EMPTY": ""}
    envfile.write(tmp_path / "admit.env", values)
    assert envfile.read(tmp_path / "admit.env") == values


def test_written_file_is_private(tmp_path: Path):
    envfile.write(tmp_path / "admit.env", {"A": "1"})
    assert (tmp_path / "admit.env").stat().st_mode & 0o777 == 0o600


def test_planted_symlink_is_replaced_and_not_followed(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "admit.env").symlink_to(victim)
    envfile.write(tmp_path / "admit.env", {"A": "1"})
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "admit.env").is_symlink()


def test_missing_file_is_empty(tmp_path: Path):
    assert envfile.read(tmp_path / "admit.env") == {}


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
