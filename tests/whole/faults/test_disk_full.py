"""The journal has no space: accounting is not acknowledged, devices are still admitted, and an alarm is raised."""

import os
import threading
import time
from contextlib import contextmanager

import pytest

from loadtest.radius_client import RadiusClient
from loadtest.workloads import BENCH_NAS, START, AccountingRequest
from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.writer import JournalFull, JournalWriter, segment_path
from nac.kit.radius_packet import ACCESS_ACCEPT
from tests.journal.journal_contents import numbered
from tests.polling import seconds_until, until
from tests.whole.faults.load import REJECT_DELAY_SECONDS
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

REFUSED, LOW = "journal-refused", "disk-low"
_BLOCK = bytes(1 << 16)
_REFILL_SECONDS = 0.001
# A name after every real segment, so that the shipper reads and deletes it last.
_OLDEST_SEGMENT = f"{1:020d}"


@contextmanager
def full(disk):
    """A file that uses all free space, and at once each page that a process gives back."""
    ballast, ended = disk / "ballast", threading.Event()
    with ballast.open("wb", buffering=0) as file:

        def fill():
            while not ended.wait(_REFILL_SECONDS):
                write_until_full(file)

        write_until_full(file)
        filler = threading.Thread(target=fill)
        filler.start()
        try:
            yield
        finally:
            ended.set()
            filler.join()
            ballast.unlink()


def write_until_full(file):
    size = len(_BLOCK)
    while size:
        try:
            file.write(_BLOCK[:size])
        except OSError:
            size //= 2


@contextmanager
def reached_limit(instance):
    """Write sparse segments up to the journal's limit, which use no disk space."""
    streams = ("auth", "acct")
    # With its first batch, the shipper advances and deletes old segments.
    until(lambda: all(instance.counter(f"{stream}_shipped") for stream in streams), "both streams are shipped")
    ballast = [segment_path(instance.cell.journal / stream, _OLDEST_SEGMENT) for stream in streams]
    for path in ballast:
        with path.open("wb") as file:
            file.truncate(instance.settings.journal_max_bytes)
    try:
        yield
    finally:
        for path in ballast:
            path.unlink(missing_ok=True)


def use_up_allowance(instance, tenant):
    """The writer checks its limit every 4 MB, so write that much."""
    nas = BENCH_NAS.attributes() * 6

    def bulk():
        return AccountingRequest(tenant.target, START, f"bulk-{os.urandom(8).hex()}", nas)

    with RadiusClient(tries=1, timeout_seconds=1) as client:
        until(lambda: client.run(bulk, count=500, window=100) and instance.alarm(REFUSED), "records are refused")


def acknowledges_nothing(work):
    """Whether no record was acknowledged while twenty devices were admitted."""
    moment, acknowledged = time.perf_counter(), work.acknowledged
    until(lambda: work.answered_since(moment) > 20, "devices are admitted")
    return work.acknowledged == acknowledged


def assert_only_accounting_waits(instance, work, note, alarm):
    note(f"journal full: alarm {alarm}", seconds_until(lambda: instance.alarm(alarm), "an alarm"))
    # The rest of the journal's last page has space for a few more records.
    until(lambda: acknowledges_nothing(work), "the end of acknowledgements")
    moment, acknowledged = time.perf_counter(), work.acknowledged
    until(lambda: work.answered_since(moment) > 50, "devices are admitted")
    assert work.acknowledged == acknowledged
    assert instance.status()["state"] == "serving"


def test_full_disk_stops_only_accounting_until_space_is_free(instance, load, note, cell_disk):
    with load() as work:
        with full(cell_disk):
            assert_only_accounting_waits(instance, work, note, LOW)
        acknowledged = work.acknowledged
        note("room again: accounting", seconds_until(lambda: work.acknowledged > acknowledged, "acknowledgements"))
    instance.wait_until_shipped()
    work.assert_served()
    work.assert_accounting_stored_once()
    decided = work.count_decided()
    answered = sum(tally.right for kind, tally in work.run.tallies.items() if not kind.startswith("acct"))
    assert 0 < decided < answered
    until(lambda: not instance.alarm_codes() & {REFUSED, LOW}, "the end of the alarms")


@pytest.mark.long
def test_full_journal_stops_only_accounting_until_shipped(instance, tenants, load, note):
    """The journal has reached ADMIT_JOURNAL_MAX_BYTES. The effect is that of a full disk."""
    with load() as work:
        with reached_limit(instance):
            use_up_allowance(instance, tenants[0])
            assert_only_accounting_waits(instance, work, note, REFUSED)
        acknowledged = work.acknowledged
        until(lambda: work.acknowledged > acknowledged, "acknowledgements")
    instance.wait_until_shipped()
    work.assert_served()
    work.assert_accounting_stored_once()
    until(lambda: not instance.alarm_codes() & {REFUSED, LOW}, "the end of the alarms")


def test_radiusd_that_starts_on_a_full_disk_admits_devices(instance, tenants, cell_disk):
    """The next radiusd starts without a journal and opens it when space is free.

    Without PostgreSQL, the shipper deletes no segments, which would free space.
    """
    with NasPackets(tenants[0]) as wire:
        with instance.stopped("postgres"), full(cell_disk):
            instance.kill("radiusd")
            until(wire.is_admitted, "a verdict")
            # A page that the old radiusd gave back can hold the first records.
            session_id, record = until(lambda: refused_record(wire), "a record that is not acknowledged")
            assert wire.verdict() == ACCESS_ACCEPT
        until(lambda: wire.exchange(record, acct=True, seconds=1), "an acknowledgement")
        assert wire.verdict() == ACCESS_ACCEPT
    instance.wait_until_well()
    instance.wait_until_shipped()
    assert instance.query("SELECT count(*) FROM accounting_log WHERE session_id = %s", session_id) == [(1,)]


def refused_record(wire):
    """The session and the packet of a new record, or None if the record was acknowledged."""
    session_id = f"full-{os.urandom(4).hex()}"
    record = wire.accounting_packet(session_id)
    return None if wire.exchange(record, acct=True, seconds=REJECT_DELAY_SECONDS) else (session_id, record)


@pytest.mark.long
def test_agent_starting_on_a_full_disk_serves_with_an_alarm(instance, tenants, cell_disk):
    with NasPackets(tenants[0]) as wire:
        with full(cell_disk):
            for name in ("agent", "radiusd"):
                instance.kill(name)
            until(wire.is_admitted, "a verdict")
            until(
                lambda: instance.status()["agent_pid"] == instance.pid("agent") and instance.alarm(LOW),
                "an alarm of the new agent",
            )
        until(lambda: not instance.alarm(LOW), "the end of the alarm")
    instance.wait_until_well()
    assert instance.status()["radiusd_pid"] == instance.pid("radiusd")


@pytest.mark.parametrize("max_bytes", [1 << 20, pytest.param(16 << 20, marks=pytest.mark.long)])
def test_full_journal_accepts_records_again_once_shipped(tmp_path, max_bytes):
    writer, reader = JournalWriter(tmp_path, max_bytes=max_bytes), JournalReader(tmp_path)
    while accepts(writer):
        continue
    position = SegmentPosition()
    while (batch := reader.read_batch(position)).payloads:
        position = batch.position
    reader.delete_before(position)
    until(lambda: accepts(writer), "room", seconds=2)
    writer.close()
    reader.close()


def accepts(writer):
    try:
        writer.append(numbered(1))
    except JournalFull:
        return False
    return True
