"""Files that commands write: a full disk loses no key, and commands replace only regular files."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Admit

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
