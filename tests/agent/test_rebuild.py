"""A replica that is broken is built anew, at the agent's start and while it runs."""

import threading

from nac.replica import files, keys
from nac.replica.files import CURRENT
from radius.agent.alarms import Alarms
from radius.agent.sync import open_replica
from tests.agent.conftest import Replica
from tests.waiting import until


def test_damaged_replica_is_built_anew_with_an_alarm(owner, alpha, platform, cell_engine, tmp_path):
    directory = tmp_path / "replica"
    Replica(platform.cell_id, cell_engine, directory).catch_up().writer.close()
    path = directory / (directory / CURRENT).read_text() / "data.mdb"
    path.write_bytes(path.read_bytes()[: 3 * 4096])
    alarms = Alarms()
    with open_replica(directory, alarms) as writer:
        assert [alarm.code for alarm in alarms.standing()] == ["replica-rebuilt"]
        assert writer.meta("complete") == ""


def test_replica_that_cannot_be_followed_any_more_is_built_anew(replica, alpha, monkeypatch):
    """A record is whole for LMDB and not what it should be: each attempt to follow fails before anything is applied, so
    that what the check finds out must be heard before that."""
    replica.catch_up()
    directory = replica.writer._directory
    before = files.current_generation(directory)
    with replica.writer._environment.begin(write=True) as transaction:
        transaction.put(keys.pack_slot(alpha.slot), b"\xc1", db=replica.writer._databases["slots"])
    monkeypatch.setattr("radius.agent.sync.SERVERS_SECONDS", 0.0)
    replica.sync.rebuild_wanted.set()
    stop = threading.Event()
    thread = threading.Thread(target=replica.sync.run, args=(stop,))
    thread.start()
    try:
        until(lambda: files.current_generation(directory) != before, "another generation", seconds=10)
    finally:
        stop.set()
        thread.join()
    assert replica.slots()[alpha.slot].tenant == alpha.number
