"""Commands that read and write files: imports, exports, tenant files, and `./admit audit verify`."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from tests.audit.conftest import Log
from tests.audit.conftest import log as log
from tests.cli.conftest import Admit
from tests.imports.test_forms import CLIENTS, NODES

OF = ("-t", "alpha")


def fail_on_full_disk(_handle: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_certificate_is_not_issued_if_its_key_cannot_be_written(
    alpha: Admit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("cli.files.os.fsync", fail_on_full_disk)
        refused = alpha.run("cert", "issue", *OF, "--profile", "device", "--name", "laptop", "--out", str(out))
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in refused.stderr
    assert not out.exists()
    names = {row["name"] for row in alpha.json("cert", "list", *OF) if row["status"] == "valid"}
    assert "laptop" not in names


def test_export_replaces_only_regular_files(alpha: Admit, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for name in ("pipe", "link"):
        refused = alpha.run("tenant-file", "export", "alpha", "--out", str(tmp_path / name))
        assert (refused.exit_code, "not a regular file" in refused.stderr) == (2, True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert alpha.run("tenant-file", "export", "alpha", "--out", str(tmp_path / "new")).exit_code == 0
    assert (tmp_path / "new").is_file()
    assert not list(tmp_path.glob(".*.part"))


def test_unwritable_output_is_reported_in_one_sentence(alpha: Admit, tmp_path: Path) -> None:
    refused = alpha.run("api", "download-authority", "alpha", "root", "--output", str(tmp_path / "missing" / "file"))
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1), refused.stderr
    assert "No such file or directory" in refused.stderr


def test_file_is_previewed_and_then_imported(alpha: Admit, tmp_path: Path):
    (tmp_path / "nodes").write_text(NODES)
    asked = ("import", "packetfence-nodes", str(tmp_path / "nodes"), *OF)
    # The groups that it names do not exist.
    preview = alpha.run(*asked, "--dry-run")
    assert (preview.exit_code, "line 2: groups: Unknown group 'printers'" in preview.stderr) == (2, True)
    assert "line 4: 00:00:5e:00:53:03 was skipped: the status is unreg" in preview.stdout
    refused = alpha.run(*asked)
    assert (refused.exit_code, "line 2: groups" in refused.stderr) == (2, True)
    assert alpha.json("endpoint", "list", *OF) == []
    done = alpha.json(*asked, "--make-groups")
    assert done["counts"]["endpoints"]["add"] == 2
    listed = {row["mac"]: row["groups"] for row in alpha.json("endpoint", "list", *OF)}
    assert listed == {"00:00:5e:00:53:01": ["printers"], "00:00:5e:00:53:02": ["staff"]}


def test_unreadable_file_is_rejected_with_its_line(alpha: Admit, tmp_path: Path):
    (tmp_path / "clients.conf").write_text(CLIENTS + "$INCLUDE more\n")
    result = alpha.run("import", "freeradius-clients", str(tmp_path / "clients.conf"), *OF, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout or result.stderr)["place"] == f"line {CLIENTS.count(chr(10)) + 1}"


def test_audit_export_is_verified_without_a_database(log: Log, tmp_path: Path, monkeypatch) -> None:
    log.write(log.alpha, "one")
    log.seal()
    monkeypatch.setenv("ADMIT_VAR_DIR", "/nonexistent")
    export = tmp_path / "export"
    lines = log.export(log.alpha)
    export.write_text("\n".join(lines) + "\n")
    assert Admit().json("audit", "verify", str(export), "--head", str(export))["verified"]
    for content, status, said in (([*lines[:-2], lines[-1]], 1, "the end is for"), (["x"], 2, "")):
        export.write_text("\n".join(content) + "\n")
        bad = Admit().run("audit", "verify", str(export))
        assert (bad.exit_code, said in bad.stdout) == (status, True), bad.output
