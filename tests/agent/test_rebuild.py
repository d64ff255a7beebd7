"""The agent rebuilds a broken replica at its start and at run time."""

import threading

from nac.cellformat.replica import files, keys
from nac.cellformat.replica.files import CURRENT
from radius.agent.alarms import Alarms
from radius.agent.replica.sync import open_replica
from tests.agent.conftest import Replica
from tests.agent.mirrored_rows import add_endpoint
from tests.polling import until


def test_damaged_replica_is_rebuilt_with_an_alarm(owner, alpha, platform, cell_engine, tmp_path):
    directory = tmp_path / "replica"
    Replica(platform.cell_id, cell_engine, directory).catch_up().writer.close()
    path = directory / (directory / CURRENT).read_text() / "data.mdb"
    path.write_bytes(path.read_bytes()[: 3 * 4096])
    alarms = Alarms()
    with open_replica(directory, alarms) as writer:
        assert [alarm.code for alarm in alarms.standing()] == ["replica-rebuilt"]
        assert writer.meta("complete") == ""


def test_replica_that_cannot_follow_is_rebuilt(replica, alpha, monkeypatch):
    """A record is intact in LMDB but invalid.

    Each step fails before it applies a change, so the check must come first.
    """
    replica.catch_up()
    directory = replica.writer._directory
    before = files.current_generation(directory)
    with replica.writer._environment.begin(write=True) as transaction:
        transaction.put(keys.pack_slot(alpha.slot), b"\xc1", db=replica.writer._databases["slots"])
    monkeypatch.setattr("radius.agent.replica.sync.SERVER_CERTIFICATE_SECONDS", 0.0)
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


def test_database_with_restarted_transaction_ids_is_reloaded(owner, alpha, replica):
    """A restored dump on another server has lower transaction ids, which would hide new rows."""
    replica.catch_up()
    (server,) = owner.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    assert replica.writer.meta("database").split("/")[0] == server
    loads = replica.sync.counters["full_loads"]
    add_endpoint(owner, alpha, "000000000001")
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == loads
    replica.sync._database = "7/1/16384"
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == loads + 1
    assert not replica.sync.catch_up()
