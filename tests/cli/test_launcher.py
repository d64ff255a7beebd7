"""`./admit` makes the Python environment: a copy of the launcher in a small checkout, with the real venv and pip."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.layout import CHECKOUT

RUN, DEVELOPMENT = "requirements.lock", "requirements-dev.lock"


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        (self.folder / "cli").mkdir(parents=True)
        (self.folder / "cli" / "__main__.py").write_text("import sys\nprint(*sys.argv[1:])\n")
        shutil.copy(CHECKOUT / "admit", self.folder)
        for lock in (RUN, DEVELOPMENT):
            (self.folder / lock).write_text("# no packages\n")

    def admit(self, *arguments: str, launcher: Path | None = None) -> list[str]:
        """Run a command. Return the lock files that it installed."""
        command = [launcher or self.folder / "admit", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout) == (0, " ".join(arguments) + "\n"), done.stderr
        return re.findall(r"^admit: installing the Python packages of (\S+) into \.venv$", done.stderr, re.MULTILINE)

    def path_entry(self) -> str:
        return next(self.folder.glob(".venv/lib/*/site-packages/admit.pth")).read_text()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("launcher") / "checkout")
    checkout.fill()
    assert checkout.admit("up") == [RUN]
    return checkout


def test_symlink_to_the_command_works(checkout, tmp_path):
    (tmp_path / "other").symlink_to(checkout.folder / "admit")
    assert checkout.admit("status", launcher=tmp_path / "other") == []


def test_development_lock_is_installed_once_by_test(checkout):
    assert checkout.admit("status") == []
    assert checkout.admit("test", "--help") == []
    assert checkout.admit("test", "tests/cli") == [DEVELOPMENT]
    assert checkout.admit("bench", "quick") == []
    assert checkout.admit("up") == []


def test_changed_lock_is_installed_by_the_next_command(checkout):
    checkout.admit("test")
    for lock in (RUN, DEVELOPMENT):
        (checkout.folder / lock).write_text("# other packages\n")
    assert checkout.admit("status") == [RUN]
    assert checkout.admit("test") == [DEVELOPMENT]


def test_failed_installation_is_repeated(checkout):
    lock = checkout.folder / RUN
    good = lock.read_text()
    lock.write_text("click==8.5.1\n")
    command = [checkout.folder / "admit", "status"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Run the same command again." in done.stderr
    lock.write_text(good + "# corrected\n")
    assert checkout.admit("status") == [RUN]


def test_moved_checkout_loads_its_own_packages(checkout):
    moved = Checkout(checkout.folder.with_name("moved"))
    shutil.copytree(checkout.folder, moved.folder, symlinks=True)
    assert moved.admit("status") == []
    assert moved.path_entry() == f"{moved.folder}\n"
    assert checkout.path_entry() == f"{checkout.folder}\n"
