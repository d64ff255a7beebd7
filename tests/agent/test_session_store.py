"""Stored TLS sessions: deleted by age or size, with an alarm if deletion is not enough. Their folder is private."""

import os
import shutil
import subprocess
import time

import pytest

from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd.tls_session_store import LIFETIME_SECONDS, TlsSessionStore, delete_old_sessions

PAGE = 4096


class Paths(CellPaths):
    """Paths of a cell whose TLS sessions lie below the cell's own root."""

    @property
    def sessions(self):
        return self.root / "sessions"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "sessions"


def add(store, slot, name, *, age=0, size=PAGE):
    path = store / f"slot-{slot}" / f"{name}.asn1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    changed = time.time() - age
    os.utime(path, (changed, changed))
    return path


def store_alarms(alarms):
    """Alarms of the store only, because the disk of the tests may be full."""
    return [alarm.code for alarm in alarms.standing() if alarm.code != "session-store-full"]


def session_names(store):
    return sorted(path.stem for path in store.glob("slot-*/*"))


def test_expired_session_is_deleted_and_others_stay(store):
    add(store, 0, "old", age=LIFETIME_SECONDS + 5)
    add(store, 0, "young", age=LIFETIME_SECONDS - 5)
    add(store, 1, "old-too", age=10 * LIFETIME_SECONDS)
    assert delete_old_sessions(store, lifetime_seconds=LIFETIME_SECONDS, most_bytes=1 << 30) == 2
    assert session_names(store) == ["young"]


def test_slot_over_its_share_loses_only_its_own_oldest(store):
    for number in range(10):
        add(store, 0, f"busy-{number}", age=number)
    for number in range(3):
        add(store, 1, f"calm-{number}", age=1000 + number)
    (store / "slot-2").mkdir()
    delete_old_sessions(store, lifetime_seconds=LIFETIME_SECONDS, most_bytes=2 * 4 * PAGE)
    assert session_names(store) == [
        *(f"busy-{number}" for number in range(4)),
        *(f"calm-{number}" for number in range(3)),
    ]


def test_foreign_file_and_missing_slots_do_not_stop_cleanup(tmp_path):
    paths, alarms = Paths(tmp_path), Alarms()
    paths.sessions.mkdir()
    (paths.sessions / "foreign").write_text("x")
    TlsSessionStore(paths, alarms, slots=2).tidy()
    assert sorted(path.name for path in paths.sessions.iterdir()) == ["foreign", "slot-0", "slot-1"]
    assert store_alarms(alarms) == []


def test_unavailable_store_raises_an_alarm(tmp_path):
    paths, alarms = Paths(tmp_path), Alarms()
    paths.sessions.write_text("in its place")
    store = TlsSessionStore(paths, alarms, slots=2)
    store.tidy()
    assert store_alarms(alarms) == ["session-store"]
    paths.sessions.unlink()
    store.tidy()
    assert store_alarms(alarms) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small place")
def test_nearly_full_store_raises_an_alarm_and_is_limited(tmp_path):
    paths, alarms = Paths(tmp_path), Alarms()
    paths.sessions.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", paths.sessions], check=True)
    try:
        store = TlsSessionStore(paths, alarms, slots=1)
        for number in range(3):
            add(paths.sessions, 0, f"s{number}", age=number, size=1 << 20)
        store.tidy()
        assert session_names(paths.sessions) == ["s0", "s1"]
        assert alarms.standing() == []
        (paths.sessions / "of-another-program").write_bytes(bytes(int(1.8 * (1 << 20))))
        store.tidy()
        (alarm,) = alarms.standing()
        assert alarm.code == "session-store-full"
        assert "of 4 MB are left" in alarm.detail
        (paths.sessions / "of-another-program").unlink()
        store.tidy()
        assert alarms.standing() == []
    finally:
        subprocess.run(["umount", paths.sessions], check=True)


@pytest.fixture
def cell_paths(tmp_path):
    """Paths whose sessions lie below a world-writable folder, as in production."""
    paths = CellPaths(tmp_path / "cell")
    yield paths
    if paths.sessions.is_symlink():
        paths.sessions.unlink()
    shutil.rmtree(paths.sessions, ignore_errors=True)


def test_folder_is_created_private_and_reused(cell_paths):
    for _ in range(2):
        cell_paths.prepare()
        assert cell_paths.sessions.stat().st_mode & 0o777 == 0o700


def test_symlink_in_place_of_the_folder_is_rejected(cell_paths, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cell_paths.sessions.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="Remove this"):
        cell_paths.prepare()


def test_folder_accessible_to_others_is_rejected(cell_paths):
    cell_paths.sessions.mkdir()
    cell_paths.sessions.chmod(0o750)
    with pytest.raises(PermissionError, match="Remove this"):
        cell_paths.prepare()
