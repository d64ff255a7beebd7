"""The folder of TLS sessions lies where anybody may make folders."""

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


def test_folder_is_made_for_the_owner_alone_and_found_again(paths):
    paths.prepare()
    paths.prepare()
    assert paths.sessions.stat().st_mode & 0o777 == 0o700


def test_link_is_refused(paths, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    paths.sessions.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="remove it"):
        paths.prepare()


def test_folder_that_others_may_enter_is_refused(paths):
    paths.sessions.mkdir()
    paths.sessions.chmod(0o750)
    with pytest.raises(PermissionError, match="remove it"):
        paths.prepare()
