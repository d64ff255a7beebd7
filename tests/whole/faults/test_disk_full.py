"""No room for the journal: accounting is not acknowledged, devices are admitted all the same, and somebody is told."""

import os
import time
from contextlib import contextmanager

import pytest

from loadtest.packet import ACCESS_ACCEPT
from loadtest.radius_client import RadiusClient
from loadtest.workloads import BENCH_NAS, START, Accounting
from nac.journal.reader import JournalReader, SegmentPosition
from nac.journal.segment import JournalFull, JournalWriter, segment_path
from tests.journal.reading import numbered
from tests.waiting import seconds_until, until
from tests.whole.faults.load import REJECT_DELAY_SECONDS
from tests.whole.wire import Wire

pytestmark = pytest.mark.faults

REFUSED, LOW = "journal-refused", "disk-low"
_BLOCK = bytes(1 << 16)
# Behind every real one, so that it is the shipper's first and its last concern.
_OLDEST_SEGMENT = f"{1:020d}"


@contextmanager
def full(disk):
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = len(_BLOCK)
        while size:
            try:
                file.write(_BLOCK[:size])
            except OSError:
                size //= 2
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def reached_limit(instance):
    """Segments as large as the journal may become, which occupy no disk."""
    streams = ("auth", "acct")
    # The shipper removes old segments when it moves on, that is with its first batch.
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
    """The writer looks at its limit every 4 MB: write as much."""
    nas = BENCH_NAS.attributes() * 6
    with RadiusClient(tries=1, timeout_seconds=1) as client:
        until(
            lambda: client.run(bulk(tenant, nas), count=500, window=100) and instance.alarm(REFUSED),
            "records are refused",
        )


def bulk(tenant, attributes):
    return lambda: Accounting(tenant.target, START, f"bulk-{os.urandom(8).hex()}", attributes)


def stands_still(work):
    """Whether nothing was acknowledged while twenty devices were admitted."""
    moment, acknowledged = time.perf_counter(), work.acknowledged
    until(lambda: work.answered_since(moment) > 20, "devices are admitted")
    return work.acknowledged == acknowledged


def assert_only_accounting_waits(instance, work, note, alarm):
    note(f"journal full: alarm {alarm}", seconds_until(lambda: instance.alarm(alarm), "an alarm"))
    # What is left of the last page of the journal takes a few records more.
    until(lambda: stands_still(work), "the end of acknowledgements")
    moment, acknowledged = time.perf_counter(), work.acknowledged
    until(lambda: work.answered_since(moment) > 50, "devices are admitted")
    assert work.acknowledged == acknowledged
    assert instance.status()["state"] == "serving"


def test_full_disk_stops_accounting_alone_until_there_is_room(instance, load, note, cell_disk):
    """The disk of the cell is full for a few seconds under load. No record is acknowledged meanwhile, every device
    gets its verdict, an alarm stands; NASes ask again, and once there is room every record is acknowledged and stored
    once, and the alarm goes."""
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
def test_journal_at_its_limit_stops_accounting_alone_until_there_is_room(instance, tenants, load, note):
    """As with a full disk, where the journal has reached ADMIT_JOURNAL_MAX_BYTES and the disk has not."""
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
    """radiusd dies while the disk is full: the next one starts without a journal and takes it up when there is room."""
    session_id = f"full-{os.urandom(4).hex()}"
    with Wire(tenants[0]) as wire:
        record = wire.accounting_packet(session_id)
        with full(cell_disk):
            instance.kill("radiusd")
            until(wire.is_admitted, "a verdict")
            assert not wire.exchange(record, acct=True, seconds=REJECT_DELAY_SECONDS)
        until(lambda: wire.exchange(record, acct=True, seconds=1), "an acknowledgement")
        assert wire.verdict() == ACCESS_ACCEPT
    instance.wait_until_well()
    instance.wait_until_shipped()
    assert instance.query("SELECT count(*) FROM accounting_log WHERE session_id = %s", session_id) == [(1,)]


@pytest.mark.long
def test_agent_that_starts_on_a_full_disk_takes_over_and_tells(instance, tenants, cell_disk):
    """The agent dies while the disk is full, and radiusd with it: the next one starts both with what is at hand."""
    with Wire(tenants[0]) as wire:
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
def test_journal_that_was_full_takes_records_again_once_they_are_shipped(tmp_path, max_bytes):
    """Whatever the limit: what was shipped makes room without radiusd being started again."""
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
