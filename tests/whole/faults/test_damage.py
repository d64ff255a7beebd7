"""Damaged files of a cell.

The journal is cut at its last valid record, with an alarm. The replica is rebuilt. A record of the replica that
causes an exception in radiusd rejects only its device.
"""

import os
import time
from contextlib import contextmanager
from zlib import crc32

import lmdb
import pytest

from nac.cellformat.journal.reader import read_tail
from nac.cellformat.journal.writer import FRAME, list_segments, segment_path
from nac.cellformat.replica import files, keys
from nac.cellformat.replica.records import DATABASES
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from tests.polling import seconds_until, until
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

_RECORDS = 20


def append_garbage(path, frames):
    """Append half a record that was never acknowledged, as an interrupted write does."""
    with path.open("ab") as file:
        file.write(FRAME.pack(500, 1) + os.urandom(100))
    return _RECORDS


def cut_last_record(path, frames):
    """Cut a part of the last record, as a power failure does after the disk falsely confirmed a flush."""
    os.truncate(path, path.stat().st_size - 7)
    return _RECORDS - 1


def flip_bit_in_the_middle(path, frames):
    half = _RECORDS // 2
    with path.open("r+b") as file:
        file.seek(-sum(frames[half:]) + FRAME.size + 3, os.SEEK_END)
        octet = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes((octet ^ 0x10,)))
    return half


@contextmanager
def cell_down_with_unshipped_records(instance, prefix, wire):
    """Stop PostgreSQL, write `_RECORDS` acknowledged records into the journal, then stop agent and radiusd."""
    with instance.stopped("postgres"):
        for number in range(_RECORDS):
            assert wire.exchange(wire.accounting_packet(f"{prefix}{number:03}"), acct=True)
        with instance.stopped("agent"):
            yield


@pytest.mark.parametrize(
    "damage",
    [
        append_garbage,
        pytest.param(cut_last_record, marks=pytest.mark.long),
        pytest.param(flip_bit_in_the_middle, marks=pytest.mark.long),
    ],
)
def test_damaged_journal_is_cut_at_its_last_valid_record(instance, tenants, damage):
    """The newest accounting segment is damaged while radiusd is stopped, before it is shipped."""
    prefix = f"cut-{os.urandom(4).hex()}-"
    with NasPackets(tenants[0]) as wire:
        instance.wait_until_shipped()
        with cell_down_with_unshipped_records(instance, prefix, wire):
            directory = instance.cell.journal / "acct"
            segment = list_segments(directory)[-1]
            path = segment_path(directory, segment)
            frames = [len(payload) + FRAME.size for payload in read_tail(directory, max_bytes=1 << 20)][-_RECORDS:]
            kept = damage(path, frames)
            lost_bytes = path.stat().st_size - _size_of_good_part(path)
        until(lambda: segment in instance.alarm("journal-cut-acct"), "an alarm that names the segment")
        until(lambda: wire.exchange(wire.accounting_packet(f"{prefix}new"), acct=True, seconds=1), "accounting goes on")
        assert wire.verdict() == ACCESS_ACCEPT
    assert f"{lost_bytes} bytes are lost" in instance.alarm("journal-cut-acct")
    instance.wait_until_well()
    counted = (1, lost_bytes)
    until(lambda: (instance.counter("acct_cut_tails"), instance.counter("acct_cut_bytes")) == counted, "it is counted")
    instance.wait_until_shipped()
    stored = "SELECT session_id FROM accounting_log WHERE session_id LIKE %s ORDER BY session_id"
    expected = [*(f"{prefix}{number:03}" for number in range(kept)), f"{prefix}new"]
    assert [session_id for (session_id,) in instance.query(stored, f"{prefix}%")] == expected


def _size_of_good_part(path):
    """The size up to the first invalid frame, parsed independently."""
    content, at = path.read_bytes(), 8
    while at + FRAME.size <= len(content):
        length, checksum = FRAME.unpack_from(content, at)
        payload = content[at + FRAME.size : at + FRAME.size + length]
        if len(payload) < length or crc32(payload) != checksum:
            break
        at += FRAME.size + length
    return at


def zero_first_pages(path):
    with path.open("r+b") as file:
        file.write(bytes(4 * 4096))


def zero_all_but_the_head(path):
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(2 * 4096)
        file.write(bytes(size - 2 * 4096))


def cut_in_half(path):
    os.truncate(path, path.stat().st_size // 2)


def data_file(instance):
    directory = instance.cell.replica
    return directory / files.current_generation(directory) / "data.mdb"


@pytest.mark.parametrize(
    "damage",
    [
        zero_first_pages,
        pytest.param(zero_all_but_the_head, marks=pytest.mark.long),
        pytest.param(cut_in_half, marks=pytest.mark.long),
    ],
)
def test_replica_damaged_during_agent_downtime_is_rebuilt(instance, tenants, note, damage):
    generation = files.current_generation(instance.cell.replica)
    with NasPackets(tenants[0]) as alpha, NasPackets(tenants[1]) as bravo:
        path = data_file(instance)
        instance.kill("agent")
        damage(path)
        damaged = time.perf_counter()
        until(lambda: files.current_generation(instance.cell.replica) != generation, "another generation")
        until(lambda: alpha.is_admitted() and bravo.is_admitted(), "verdicts")
        note(f"replica damaged, agent away ({damage.__name__}): right verdicts", time.perf_counter() - damaged)
        until(lambda: instance.alarm("replica-rebuilt"), "an alarm")
        assert alpha.verdict("02ffffffffff") != ACCESS_ACCEPT
    instance.wait_until_well()


@pytest.mark.long
def test_replica_damaged_during_cell_downtime_is_rebuilt(instance, tenants):
    with instance.stopped("agent"):
        zero_all_but_the_head(data_file(instance))
    with NasPackets(tenants[0]) as wire:
        until(wire.is_admitted, "a verdict")
        until(lambda: instance.alarm("replica-rebuilt"), "an alarm")
    instance.wait_until_well()


@pytest.mark.long
@pytest.mark.parametrize("damage", [zero_all_but_the_head, cut_in_half])
def test_replica_damaged_at_run_time_is_rebuilt(instance, tenants, note, damage):
    """Requests fail, so the agent checks the replica."""
    generation = files.current_generation(instance.cell.replica)
    with NasPackets(tenants[0]) as alpha, NasPackets(tenants[1]) as bravo:
        damage(data_file(instance))

        def is_rebuilt() -> bool:
            alpha.is_admitted()
            return files.current_generation(instance.cell.replica) != generation

        note(f"replica damaged in use ({damage.__name__}): rebuilt", seconds_until(is_rebuilt, "another generation"))
        until(lambda: alpha.is_admitted() and bravo.is_admitted(), "verdicts")
        until(lambda: instance.alarm("replica-rebuilt"), "an alarm")
    instance.wait_until_well()


# No valid record in msgpack.
_GARBAGE = b"\xc1 this was never written by an agent"


@contextmanager
def broken_endpoint(instance, tenant_id, mac):
    """Make the endpoint's record in the running cell's replica invalid, without the agent."""
    ((number,),) = instance.query("SELECT number FROM tenants WHERE id = %s", tenant_id)
    key = keys.endpoint(number, mac)
    before = _replace(instance.cell.replica, key, _GARBAGE)
    try:
        yield
    finally:
        _replace(instance.cell.replica, key, before)


def _replace(directory, key, value):
    path = directory / files.current_generation(directory)
    with (
        lmdb.open(str(path), map_size=files.MAP_BYTES, max_dbs=len(DATABASES), mode=0o640) as environment,
        environment.begin(write=True, db=environment.open_db(b"endpoints")) as transaction,
    ):
        before = transaction.get(key)
        transaction.put(key, value)
    return before


def test_module_exception_is_a_reject_with_its_own_reason(instance, tenants):
    alpha = tenants[0]
    victim, neighbour = (endpoint.mac for endpoint in alpha.tenant.endpoints[1:3])
    before, radiusd = instance.counter("radiusd_log_internal_error"), instance.pid("radiusd")
    with NasPackets(alpha) as wire, NasPackets(tenants[1]) as other:
        with broken_endpoint(instance, alpha.tenant_id, victim):
            assert wire.verdict(victim) == ACCESS_REJECT
            assert wire.verdict(neighbour) == ACCESS_ACCEPT
            assert other.verdict() == ACCESS_ACCEPT
        assert wire.verdict(victim) == ACCESS_ACCEPT
    instance.wait_until_shipped()
    decided = instance.query(
        "SELECT permitted, reason FROM auth_log WHERE tenant_id = %s AND mac = %s::macaddr ORDER BY at DESC LIMIT 2",
        alpha.tenant_id,
        victim,
    )
    assert decided == [(True, "rule-permitted"), (False, "internal-error")]
    until(lambda: instance.counter("radiusd_log_internal_error") == before + 1, "the counter rises")
    log = instance.cell.radiusd_log.read_text()
    trace = log[log.rindex("admit: internal-error") :]
    assert "Traceback (most recent call last)" in trace
    assert "DecodeError" in trace
    assert instance.pid("radiusd") == radiusd
