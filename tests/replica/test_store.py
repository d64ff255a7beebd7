import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.cellformat.replica import keys
from nac.cellformat.replica.check import check_replica
from nac.cellformat.replica.files import CURRENT
from nac.cellformat.replica.records import (
    FORMAT,
    AuthorityRecord,
    CertificateRecord,
    EndpointRecord,
    NasRecord,
    PolicyRecord,
    PoolRecord,
    PoolStockRecord,
    SiteRecord,
    SlotRecord,
    UserRecord,
)
from nac.cellformat.replica.store import (
    ReplicaDamaged,
    ReplicaError,
    ReplicaFull,
    ReplicaMissing,
    ReplicaReader,
    ReplicaWriter,
)
from tests.replica.contents import everything, view_of
from tests.replica.reader_process import ROOT, ReaderProcess
from tests.run_depth import examples

SITE = str(UUID(int=1))
POLICY = str(UUID(int=2))
SLOT = SlotRecord(7, str(UUID(int=9)), "alpha", "active", SITE, "0a", 200, 60)
ENDPOINT = EndpointRecord("e", "Printer", "active", ("printers",), 0, {"owner": "IT"})


@pytest.fixture
def writer(tmp_path):
    with ReplicaWriter(tmp_path / "replica") as writer:
        yield writer


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "replica"


def data_file(directory):
    return directory / (directory / CURRENT).read_text() / "data.mdb"


def generations(directory):
    return [path for path in directory.iterdir() if path.is_dir()]


def run_python(script, directory):
    """Run a script in its own process, because LMDB opens a file once per process and may end the process."""
    command = [sys.executable, "-c", script, str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def fill(writer, count=1):
    with writer.begin() as batch:
        batch.put_slot(3, SLOT)
        for number in range(count):
            batch.put_endpoint(7, f"{number:012x}", ENDPOINT)
        batch.set_meta("complete", "1")


def test_every_kind_of_record_round_trips(writer):
    site, policy = SiteRecord(SITE, "Head office", POLICY, b"{}"), PolicyRecord(POLICY, "Policy", 4, b'{"rules":[]}')
    nas, user = NasRecord("n", "Switch", SITE, "cisco"), UserRecord("u", "straße", False, ("staff",), "hash", b"", 5)
    certificate, authority = CertificateRecord("c", "valid", "p", "cn", ""), AuthorityRecord(((7, True),))
    with writer.begin() as batch:
        batch.put_slot(3, SLOT)
        batch.put_site(7, site)
        batch.put_policy(7, policy)
        batch.put_nas(keys.by_identifier(7, "switch-1"), nas)
        batch.put_nas(keys.by_address(7, b"\xc0\x00\x02\x01"), nas)
        batch.put_endpoint(7, "aabbccddeeff", ENDPOINT)
        batch.put_user(7, user)
        batch.put_certificate(7, "00ff01", certificate)
        batch.put_authority("/O=Alpha/CN=Alpha CA", authority)
        batch.set_meta("position", "5:9:7")
    with view_of(writer) as view:
        assert (view.slot(3), view.slot(4)) == (SLOT, None)
        assert (view.site(7, SITE), view.policy(7, POLICY)) == (site, policy)
        assert view.nas_by_identifier(7, "switch-1") == view.nas_by_address(7, b"\xc0\x00\x02\x01") == nas
        assert view.endpoint(7, "aabbccddeeff") == ENDPOINT
        assert (view.user(7, "STRASSE"), view.certificate(7, "ff01")) == (user, certificate)
        assert (view.authority("/O=Alpha/CN=Alpha CA"), view.meta("position")) == (authority, "5:9:7")
        # The keys of other tenants and devices.
        others = ((8, "aabbccddeeff"), (7, "aabbccddeefe"), (7, ""))
        assert [view.endpoint(*key) for key in others] == [None] * 3


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=st.text(max_size=600))
def test_any_name_is_looked_up_without_an_error(name, writer):
    with view_of(writer) as view:
        assert view.user(7, name) is None
        assert view.nas_by_identifier(7, name) is None
        assert view.certificate(7, name.encode("utf-8", "surrogatepass").hex()) is None


def test_reader_in_another_process_sees_each_commit(writer, directory):
    with ReaderProcess(directory) as reader:
        assert reader.evaluate("view.slot(3)").startswith("ReplicaMissing")
        fill(writer)
        time.sleep(0.25)
        assert reader.evaluate("view.slot(3)") == repr(SLOT)
        with writer.begin() as batch:
            batch.delete_slot(3)
        assert reader.evaluate("view.slot(3)") == "None"


def test_failed_batch_leaves_nothing(writer):
    fill(writer)
    before = everything(writer)

    def fail_halfway():
        with writer.begin() as batch:
            batch.clear()
            batch.put_endpoint(7, "00000000aaaa", ENDPOINT)
            raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        fail_halfway()
    assert everything(writer) == before


def test_clearing_a_tenant_keeps_its_neighbours(writer):
    with writer.begin() as batch:
        for tenant in (6, 7, 8):
            for number in range(500):
                batch.put_endpoint(tenant, f"{number:012x}", ENDPOINT)
            batch.put_site(tenant, SiteRecord(SITE, "S", POLICY))
    with writer.begin() as batch:
        batch.clear_tenant(7)
    with view_of(writer) as view:
        assert view.endpoint(7, "000000000001") is None
        assert view.site(7, SITE) is None
        assert view.endpoint(6, "0000000001f3") == view.endpoint(8, "000000000000") == ENDPOINT
        assert view.site(8, SITE) is not None


def test_clearing_a_nas_removes_both_keys(writer):
    gone, kept = NasRecord("n1", "A", SITE, ""), NasRecord("n2", "B", SITE, "")
    address = b"\x01\x02\x03\x04"
    with writer.begin() as batch:
        for key, nas in ((keys.by_identifier(7, "a"), gone), (keys.by_address(7, address), gone)):
            batch.put_nas(key, nas)
        batch.put_nas(keys.by_identifier(7, "b"), kept)
        batch.clear_nases(7, {"n1"})
    with view_of(writer) as view:
        assert view.nas_by_identifier(7, "a") is view.nas_by_address(7, address) is None
        assert view.nas_by_identifier(7, "b") == kept


def test_rebuild_serves_the_old_data_until_complete(writer, directory):
    fill(writer)
    with ReaderProcess(directory) as reader:
        assert reader.evaluate("view.endpoint(7, '000000000000').name") == "'Printer'"
        writer.rebuild()
        time.sleep(0.25)
        assert reader.evaluate("view.endpoint(7, '000000000000').name") == "'Printer'"
        with writer.begin() as batch:
            batch.put_slot(4, SLOT)
        time.sleep(0.25)
        assert reader.evaluate("view.endpoint(7, '000000000000')") == "None"
        assert reader.evaluate("view.slot(4).slug") == "'alpha'"
    assert len(generations(directory)) == 1


def test_killed_rebuild_keeps_serving_the_old_data(directory):
    with ReplicaWriter(directory) as writer:
        fill(writer)
    script = """
import os, signal, sys
from nac.cellformat.replica.store import ReplicaWriter
from tests.replica.test_store import ENDPOINT
with ReplicaWriter(sys.argv[1], fresh=True).begin() as batch:
    batch.put_endpoint(7, '0' * 12, ENDPOINT)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(script, directory).returncode == -signal.SIGKILL
    with ReplicaWriter(directory) as writer:
        assert writer.slots() == {3: SLOT}
        assert len(generations(directory)) == 1


def test_second_writer_is_rejected(writer, directory):
    script = "import sys; from nac.cellformat.replica.store import ReplicaWriter; ReplicaWriter(sys.argv[1])"
    assert "another agent already writes the replica" in run_python(script, directory).stderr


@pytest.mark.parametrize("kept", [0, 100, 4096, 3 * 4096, 0.5])
def test_truncated_file_is_rejected_by_writer_and_reader(directory, kept):
    with ReplicaWriter(directory) as writer:
        fill(writer, 5_000)
    path = data_file(directory)
    size = path.stat().st_size
    os.truncate(path, int(size * kept) if isinstance(kept, float) else kept)
    with ReaderProcess(directory) as reader:
        assert reader.evaluate("view.slot(3)").startswith(("ReplicaDamaged", "ReplicaMissing"))
    with pytest.raises(ReplicaError):
        ReplicaWriter(directory)
    with ReplicaWriter(directory, fresh=True) as writer:
        fill(writer)
        assert writer.slots() == {3: SLOT}


def test_overwritten_pages_are_found_by_the_check(directory):
    with ReplicaWriter(directory) as writer:
        fill(writer, 5_000)
    check_replica(directory)
    with data_file(directory).open("r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(50 * 4096))
    with pytest.raises(ReplicaDamaged):
        check_replica(directory)


_BROKEN_UNDER_ITS_WRITER = """
import sys
from pathlib import Path
from nac.cellformat.replica.files import ReplicaDamaged
from nac.cellformat.replica.store import ReplicaWriter
from tests.replica.test_store import data_file, fill

directory = Path(sys.argv[1])
with ReplicaWriter(directory) as writer:
    fill(writer, 5_000)
    with data_file(directory).open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(2 * 4096)
        file.write(bytes(size - 2 * 4096))
    for look in (writer.slots, lambda: writer.meta("complete"), lambda: fill(writer), lambda: fill(writer)):
        try:
            look()
        except ReplicaDamaged:
            print("damaged")
    writer.rebuild()
    fill(writer)
    print(writer.slots()[3].slug)
"""


def test_writer_reports_a_damaged_file_and_can_rebuild(directory):
    """A batch that could not begin leaves no lock."""
    done = run_python(_BROKEN_UNDER_ITS_WRITER, directory)
    assert (done.stdout.split(), done.stderr) == (["damaged"] * 4 + ["alpha"], "")


def test_replica_of_another_format_is_not_read(directory, monkeypatch):
    with ReplicaWriter(directory) as writer:
        fill(writer)
    monkeypatch.setattr("nac.cellformat.replica.files.FORMAT", FORMAT + 1)
    with pytest.raises(ReplicaMissing, match="format"):
        ReplicaWriter(directory)


def test_unreadable_generation_keeps_the_old_one_in_service(writer, directory):
    fill(writer)
    with ReaderProcess(directory) as reader:
        assert reader.evaluate("view.slot(3).slug") == "'alpha'"
        (directory / "99999999999999999999").mkdir()
        (directory / CURRENT).write_text("99999999999999999999")
        time.sleep(0.25)
        assert reader.evaluate("view.slot(3).slug") == "'alpha'"


def test_full_map_rejects_the_batch_and_keeps_the_data(directory):
    with ReplicaWriter(directory, map_size_bytes=1 << 20) as writer:
        fill(writer)
        with pytest.raises(ReplicaFull):
            fill(writer, 50_000)
        assert writer.slots() == {3: SLOT}
        with view_of(writer) as view:
            assert view.endpoint(7, f"{1:012x}") is None


def test_killed_reader_does_not_make_the_file_grow(writer, directory):
    fill(writer, 2_000)
    script = """
import os, signal, sys
from nac.cellformat.replica.store import ReplicaReader
with ReplicaReader(sys.argv[1]).begin():
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(script, directory).returncode == -signal.SIGKILL
    for _ in range(30):
        fill(writer, 2_000)
    assert data_file(directory).stat().st_size < 4 << 20


def test_pool_is_found_only_by_its_current_name(writer):
    def put(pool_id, name):
        batch.put_pool(7, PoolRecord(pool_id, "ipv4", "deny", "", 0), PoolStockRecord("", name, ()))

    def find_pools(*names):
        with view_of(writer) as view:
            pools = [view.pool(7, "", name) for name in names]
            return [pool and pool.pool_id for pool in pools]

    one, two = str(UUID(int=3)), str(UUID(int=4))
    with writer.begin() as batch:
        put(one, "devices")
        put(two, "phones")
    # In this order, the names are assigned before their previous pools release them.
    with writer.begin() as batch:
        put(one, "phones")
        put(two, "cameras")
    names = ("devices", "phones", "cameras")
    assert find_pools(*names) == [None, one, two]
    with writer.begin() as batch:
        put(one, "cameras")
        batch.delete_pool(7, two)
    assert find_pools(*names) == [None, None, one]


def test_no_thread_misses_a_replica_that_another_opens(directory):
    """`radiusd` authenticates and accounts in two threads. The later thread must wait."""
    with ReplicaWriter(directory) as writer:
        fill(writer)

    def read(reader, together):
        together.wait()
        with reader.begin() as view:
            return view.version

    with ThreadPoolExecutor(4) as pool:
        for _ in range(60):
            reader, together = ReplicaReader(directory), threading.Barrier(4)
            assert len(set(pool.map(read, [reader] * 4, [together] * 4))) == 1
            reader.close()


@pytest.mark.parametrize(
    ("kind", "written", "added"),
    [
        (
            NasRecord,
            ["n", "Switch", "site", "cisco", True, [[b"sealed", "nas:n"]], "rotation", False],
            {"mab_password": "mac", "sealed_mab_password": b"", "mab_by_name": False},
        ),
        (
            SlotRecord,
            [7, "t", "a", "active", "site", "0a", 200, 60, ["mab"], ["1.3"], True, False, b"key", 600, [], "rotation"],
            {"realms": ()},
        ),
    ],
)
def test_record_of_an_earlier_version_is_read_with_defaults(kind, written, added):
    """The records lack the MAB settings of a NAS and the realms of a tenant."""
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(written), type=kind)
    assert {name: getattr(found, name) for name in added} == added
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found))[: len(written)] == written
