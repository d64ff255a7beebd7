"""The files that `./admit test --quick` runs."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands.test import command
from cli.devtools import quick_tests
from cli.layout import CHECKOUT

TESTS = CHECKOUT / "tests"
FOLDERS = {file.relative_to(TESTS).parts[0] for file in TESTS.glob("*/**/test_*.py")}


@pytest.fixture
def git_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "tests/agent").mkdir(parents=True)
    for name in ("old", "same", "deleted"):
        (tmp_path / f"tests/agent/test_{name}.py").touch()
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for step in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "start")):
        subprocess.run(("git", *step), cwd=tmp_path, check=True)
    monkeypatch.setattr(quick_tests, "CHECKOUT", tmp_path)
    return tmp_path


def test_every_fast_folder_has_a_quick_file():
    covered = {path.split("/")[1] for pattern in quick_tests.PATTERNS for path in quick_tests.files_of(pattern)}
    assert FOLDERS - quick_tests.SLOW_FOLDERS - covered == set()
    assert quick_tests.SLOW_FOLDERS < FOLDERS
    assert covered & quick_tests.SLOW_FOLDERS == set()


def test_every_pattern_has_files():
    assert [pattern for pattern in quick_tests.PATTERNS if not quick_tests.files_of(pattern)] == []


def test_only_changed_test_files_are_added(git_checkout):
    (git_checkout / "tests/agent/test_new.py").touch()
    (git_checkout / "tests/agent/test_old.py").write_text("changed")
    (git_checkout / "tests/agent/helpers.py").touch()
    (git_checkout / "tests/agent/test_deleted.py").unlink()
    assert quick_tests.quick_files() == ["tests/agent/test_new.py", "tests/agent/test_old.py"]


def test_checkout_without_git_has_no_changed_files(monkeypatch, tmp_path):
    monkeypatch.setattr(quick_tests, "CHECKOUT", tmp_path)
    assert quick_tests.changed_files() == set()


@pytest.mark.parametrize("other", ["--faults", "--long"])
def test_quick_excludes_the_slow_selections(other):
    result = CliRunner().invoke(command, ["--quick", other])
    assert result.exit_code == 2
    assert "Remove --quick, or the other options." in result.output
