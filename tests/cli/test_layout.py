import os
from pathlib import Path

import pytest

from cli import layout as layouts
from cli.account import is_root, may_run, require_account
from cli.errors import Refused
from cli.layout import find_arrangement, find_layout, make_layout
from cli.rights import RIGHTS

as_root = pytest.mark.skipif(not is_root(), reason="arranges accounts: needs root")
as_person = pytest.mark.skipif(is_root(), reason="root has an arrangement of its own")


@pytest.fixture
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path / "var"))
    return tmp_path / "var"


def open_up(path: Path) -> None:
    """`pytest` makes its temporary folders private to their owner."""
    for folder in (path, *path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)


@as_root
@pytest.mark.skipif(
    is_root() and not may_run(require_account("postgres"), Path("/")),
    reason="this checkout is other users cannot enter this checkout",
)
def test_root_in_an_open_folder_gives_each_process_a_user(var: Path):
    open_up(var.parent)
    made = make_layout()
    assert made.is_separated
    users = [made.account(process) for process in RIGHTS]
    assert len(set(users)) == len(RIGHTS)
    assert None not in users
    assert made.account("postgres") == made.database_account
    assert made.postgres == var / "postgres"
    assert {folder.stat().st_uid for folder in (var, made.run, made.keys, made.log)} == {0}


@as_root
def test_root_in_a_closed_folder_drops_only_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("ADMIT_VAR_DIR", str(closed / "var"))
    made = make_layout()
    try:
        assert not made.is_separated
        assert made.account("public") is None
        assert made.database_account is not None
        assert made.postgres.parent.parent == Path("/var/lib/admit")
        assert made.postgres.parent.stat().st_uid == made.database_account.uid
        assert "other users cannot enter this checkout" in made.describe()
    finally:
        os.rmdir(made.postgres.parent)
        os.rmdir(made.run)


@as_person
def test_normal_user_runs_all_processes(var: Path):
    made = make_layout()
    assert not made.is_separated
    assert {made.account(process) for process in RIGHTS} == {None}
    assert made.postgres == var / "postgres"


def test_layout_is_stable(var: Path):
    open_up(var.parent)
    made = make_layout()
    assert find_arrangement() == made
    assert make_layout() == made


def test_layout_without_a_start_counts_as_missing(var: Path):
    open_up(var.parent)
    made = make_layout()
    assert find_layout() is None
    made.env_file.touch()
    assert find_layout() == made


def test_path_too_long_for_a_socket_gets_a_short_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    open_up(tmp_path)
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path / ("x" * 90)))
    made = make_layout()
    try:
        assert not made.run.is_relative_to(tmp_path)
        assert len(str(made.run / "supervisor.sock.1234567")) <= 107
        assert made.run.stat().st_mode & 0o777 == (0o711 if is_root() else 0o700)
    finally:
        made.run.rmdir()


@pytest.mark.parametrize("name", ["with blank", "semi;colon", 'quo"te', "per%cent", "new\nline"])
def test_path_unsafe_in_configurations_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ADMIT_VAR_DIR", f"/tmp/{name}")
    with pytest.raises(Refused, match="Move or rename"):
        make_layout()


def test_damaged_file_is_rejected_with_its_line(var: Path):
    var.mkdir()
    (var / "layout.json").write_text("{")
    with pytest.raises(Refused, match=r"layout\.json: The file is damaged"):
        find_layout()


@as_root
def test_data_without_its_var_folder_is_set_aside(var: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    left = tmp_path / "lib" / "postgres"
    left.mkdir(parents=True)
    orphan = layouts.Layout(var, tmp_path / "run", left, None, is_separated=False)
    layouts._set_aside_orphan(orphan)
    assert not left.exists()
    assert [folder.name.split("-")[0] for folder in tmp_path.glob("lib.orphan*")] == ["lib.orphan"]
