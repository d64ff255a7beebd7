"""`./admit export` while a worker runs the job."""

import gzip
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.logs.exports import runner
from nac.logs.exports.export_folder import ExportFolder
from nac.models import AuthLog, Tenant
from tests.cli.conftest import Admit
from tests.factories.rows import make_row
from tests.polling import until


@pytest.fixture
def logged(alpha: Admit, owner_engine: Engine) -> Admit:
    with Session(owner_engine) as session, session.begin():
        tenant_id = session.scalars(select(Tenant.id)).one()
        for name in ("ann", "=bob"):
            make_row(session, AuthLog.__table__, tenant_id, at=utc_now(), identity=name)
    return alpha


@pytest.fixture
def works(worker_engine: Engine, tmp_path: Path) -> Iterator[None]:
    """A worker next to the commands."""
    ends = threading.Event()

    def work() -> None:
        while not ends.wait(0.05):
            runner.run_next_export(ExportFolder(tmp_path / "exports"), runner.ExportLimits(0, 60), engine=worker_engine)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    ends.set()
    thread.join()


START = ("export", "start", "--tenant", "alpha", "--log", "auth", "--since", "1d")


def test_export_is_awaited_and_saved_to_the_path(logged: Admit, works: None, tmp_path: Path) -> None:
    output = tmp_path / "wanted" / "here"
    row = logged.json(*START, "--format", "jsonl", "--output", str(output))
    assert (row["state"], row["rows"], row["percent"], row["error"]) == ("done", 2, 100, "")
    names = [each["file"] for each in row["files"]]
    assert sorted(path.name for path in output.iterdir()) == sorted([*names, "manifest.json"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in output.iterdir()} <= {0o640, 0o600}
    lines = [line for name in names for line in gzip.decompress((output / name).read_bytes()).splitlines()]
    assert sorted(json.loads(line)["identity"] for line in lines) == ["=bob", "ann"]
    told = logged.json("export", "download-path", "-t", "alpha", str(row["id"]))
    assert (Path(told["path"]) / "manifest.json").read_bytes() == (output / "manifest.json").read_bytes()
    again = logged.run(*START, "--output", str(output))
    assert (again.exit_code, "Use a new or empty folder." in again.stderr) == (2, True)


def test_queued_export_has_no_path(logged: Admit) -> None:
    row = logged.json(*START)
    assert (row["state"], row["format"], row["percent"], row["before_deletion"]) == ("queued", "csv", 0, False)
    waits = logged.run("export", "download-path", "-t", "alpha", str(row["id"]))
    assert (waits.exit_code, "the export is queued" in waits.stderr) == (1, True)


def test_failed_export_is_reported_to_the_waiting_user(logged: Admit, worker_engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "exports").write_text("in the way")
    folder, limits = ExportFolder(tmp_path / "exports"), runner.ExportLimits(0, 60)
    thread = threading.Thread(
        target=lambda: until(lambda: runner.run_next_export(folder, limits, engine=worker_engine), "an export")
    )
    thread.start()
    result = logged.run(*START, "--wait")
    thread.join()
    assert (result.exit_code, "Admit retries the export automatically." in result.stderr) == (1, True)


def test_invalid_input_exits_with_2(alpha: Admit) -> None:
    for options in (
        (*START, "--log", "audit"),
        (*START, "--until", "2d"),
        (*START, "--format", "xls"),
        (*START, "-t", "nobody"),
        ("export", "show", "-t", "alpha", "999"),
        ("export", "download-path", "-t", "alpha", "999"),
    ):
        assert alpha.run(*options).exit_code == 2, options
