"""The version of radiusd's files. It changes with an upgrade, because radiusd outlives the agent."""

import shutil

import pytest

from radius.agent.radiusd.generation import CHECKOUT, checkout_version, running_version


@pytest.fixture
def checkout(tmp_path):
    for folder in ("radius/raddb", "radius/module", "radius/agent", "nac/cellformat/journal", "pki"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["radius/raddb/templates/eap", "radius/module/auth.py", "nac/cellformat/journal/records.py", "pki/serials.py"],
)
def test_file_used_by_radiusd_changes_the_version(checkout, name):
    before = checkout_version(checkout)
    path = checkout / name
    path.write_text(path.read_text() + "#")
    assert checkout_version(checkout) != before


def test_line_moved_between_two_files_changes_the_version(checkout):
    (checkout / "pki" / "one.py").write_text("a")
    (checkout / "pki" / "two.py").write_text("bc")
    before = checkout_version(checkout)
    (checkout / "pki" / "one.py").write_text("ab")
    (checkout / "pki" / "two.py").write_text("c")
    assert checkout_version(checkout) != before


def test_agent_and_compiled_files_keep_the_version(checkout):
    before = checkout_version(checkout)
    (checkout / "radius" / "agent" / "cell.py").write_text("")
    (checkout / "radius" / "module" / "__pycache__").mkdir()
    (checkout / "radius" / "module" / "__pycache__" / "auth.pyc").write_bytes(b"x")
    assert checkout_version(checkout) == before


def test_version_matches_this_tree():
    assert running_version() == checkout_version(CHECKOUT)
