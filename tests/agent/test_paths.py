"""The folder of TLS sessions lies below a world-writable folder, so the agent checks its owner and mode."""

import shutil

import pytest

from radius.agent.paths import CellPaths


@pytest.fixture
def paths(tmp_path):
    paths = CellPaths(tmp_path / "cell")
    yield paths
    if paths.sessions.is_symlink():
        paths.sessions.unlink()
    else:
        shutil.rmtree(paths.sessions, ignore_errors=True)


def test_folder_is_created_private_and_reused(paths):
    paths.prepare()
    paths.prepare()
    assert paths.sessions.stat().st_mode & 0o777 == 0o700


def test_symlink_in_place_of_the_folder_is_rejected(paths, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    paths.sessions.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="Remove this"):
        paths.prepare()


def test_folder_accessible_to_others_is_rejected(paths):
    paths.sessions.mkdir()
    paths.sessions.chmod(0o750)
    with pytest.raises(PermissionError, match="Remove this"):
        paths.prepare()
