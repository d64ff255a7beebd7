import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from nac.kit.secrets import KeyFileRefused, MasterKeyFile, Sealer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "master.key"


def test_created_key_is_private_and_survives_a_restart(path):
    sealed = Sealer(MasterKeyFile.create(path)).seal(b"secret", "slot:1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(bytes.fromhex(path.read_text())) == 32
    assert Sealer(MasterKeyFile(path)).open(sealed, "slot:1") == b"secret"


def test_process_with_the_key_leaves_no_core_file(path, monkeypatch):
    asked: list[Any] = []
    # This process cannot restore a limit after it removed the limit.
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: asked.append(limit))
    MasterKeyFile.create(path)
    assert asked == [(resource.RLIMIT_CORE, (0, 0))]


def test_key_is_created_once_and_never_overwritten(path):
    first = MasterKeyFile.create(path)
    with pytest.raises(KeyFileRefused, match="already"):
        MasterKeyFile.create(path)
    assert MasterKeyFile.load_or_create(path).key_id == first.key_id
    other = path.with_name("other.key")
    assert MasterKeyFile.load_or_create(other).key_id == MasterKeyFile.load_or_create(other).key_id != first.key_id


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of root")
def test_root_owned_group_readable_key_is_read(path):
    made = MasterKeyFile.create(path)
    path.chmod(0o640)
    assert MasterKeyFile(path).key_id == made.key_id
    os.chown(path, 65534, 65534)
    with pytest.raises(KeyFileRefused, match="0640"):
        MasterKeyFile(path)


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o620, 0o660])
def test_key_readable_by_others_is_rejected(path, mode):
    MasterKeyFile.create(path)
    path.chmod(mode)
    with pytest.raises(KeyFileRefused, match=f"{mode:04o}") as caught:
        MasterKeyFile(path)
    assert caught.value.remedy == f"chmod 600 {path}"


@pytest.mark.parametrize("content", ["", "abcd", "zz" * 32, "ab" * 33, "ab" * 31, "\xff" * 64])
def test_invalid_key_file_is_rejected_without_quoting_it(path, content):
    path.parent.mkdir()
    path.write_text(content, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(KeyFileRefused, match="64 hex digits") as caught:
        MasterKeyFile(path)
    assert not content or content not in str(caught.value)


def test_absent_file_folder_link_and_pipe_are_rejected(tmp_path, path):
    MasterKeyFile.create(path)
    link, folder, pipe = tmp_path / "link", tmp_path / "folder", tmp_path / "pipe"
    link.symlink_to(path)
    folder.mkdir(mode=0o700)
    os.mkfifo(pipe, 0o600)
    for refused in (tmp_path / "absent", link, folder, pipe):
        with pytest.raises(KeyFileRefused) as caught:
            MasterKeyFile(refused)
        assert caught.value.place == str(refused)
