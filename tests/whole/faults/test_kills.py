"""Processes that are killed (SIGKILL), too large or taken over by another machine.

They are restarted automatically, and no record is lost or duplicated.
"""

import os
import signal
import time
from contextlib import contextmanager

import pytest

from cli import procfs
from tests.polling import seconds_until, until
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

# Processes that answer no devices, so their end must not affect devices. Those of the cell come first.
BEHIND_THE_SCENES = ["agent", "postgres", "redis", "worker", "api"]


def is_replaced(instance, name, killed):
    """Whether a new process of this name works, and all other processes too."""
    if instance.pid(name) == killed or instance.complaints():
        return False
    return name != "agent" or instance.status()["agent_pid"] == instance.pid("agent")


@pytest.mark.parametrize(
    "names", [BEHIND_THE_SCENES[:2], pytest.param(BEHIND_THE_SCENES[2:], marks=pytest.mark.long)], ids="-".join
)
def test_killed_processes_are_restarted_unnoticed_by_devices(instance, load, note, names):
    radiusd = instance.pid("radiusd")
    with load() as work:
        for name in names:
            killed = instance.kill(name)
            seconds = seconds_until(
                lambda name=name, killed=killed: is_replaced(instance, name, killed), f"another {name}"
            )
            note(f"{name} killed: well again", seconds)
            recovered = time.perf_counter()
            until(lambda recovered=recovered: work.answered_since(recovered) > 30, "answers afterwards")
    work.assert_unaffected()
    assert instance.pid("radiusd") == instance.status()["radiusd_pid"] == radiusd


def test_killed_radiusd_is_restarted_and_keeps_its_records(instance, load, note):
    restarts = instance.counter("radiusd_restarts")
    with load(with_eap=False) as work:
        killed = instance.kill("radiusd")
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 100, "answers of another radiusd")
    note("radiusd killed: silence on the wire", work.longest_silence_seconds)
    work.assert_nothing_lost()
    assert instance.pid("radiusd") != killed
    until(lambda: instance.counter("radiusd_restarts") == restarts + 1, "the restart is counted")
    until(lambda: not instance.complaints(), "the cell is well")


@pytest.mark.long
def test_killed_radiusd_is_restarted_while_postgresql_hangs(instance, tenants, note):
    """The agent has open connections to PostgreSQL. The restart must not wait for PostgreSQL."""
    until(lambda: instance.status()["database"], "the cell reports to PostgreSQL")
    with instance.frozen("postgres"), NasPackets(tenants[0]) as wire:
        until(lambda: not instance.status()["database"], "the cell notices that PostgreSQL hangs")
        killed = instance.kill("radiusd")
        note("radiusd killed while PostgreSQL hangs: answers", seconds_until(wire.is_admitted, "an answer"))
        assert instance.pid("radiusd") != killed


def test_record_repeated_to_a_new_radiusd_is_stored_once(instance, tenants):
    session_id = f"twice-{os.urandom(4).hex()}"
    with NasPackets(tenants[0]) as wire:
        request = wire.accounting_packet(session_id)
        assert wire.exchange(request, acct=True)
        instance.kill("radiusd")
        until(lambda: wire.exchange(request, acct=True, seconds=0.5), "the same packet is answered by another radiusd")
    instance.wait_until_shipped()
    assert instance.query("SELECT count(*) FROM accounting_log WHERE session_id = %s", session_id) == [(1,)]


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])
def test_killed_shipping_backend_loses_and_doubles_nothing(instance, load, note, times):
    """The position stored with each batch determines the records that are sent again."""
    with load() as work:
        for _ in range(times):
            (backend,) = until(
                lambda: instance.query(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'admit-ship-acct' AND state <> 'idle'"
                ),
                "the shipper is at work",
            )[0]
            os.kill(backend, signal.SIGKILL)
            note("a backend killed: well again", seconds_until(lambda: not instance.complaints(), "all is well again"))
    work.assert_unaffected()


@pytest.mark.long
def test_killed_supervisor_is_replaced_by_the_next_up(instance, load, note):
    """The children of the killed `supervisord` continue. The next `./admit up` stops and restarts everything."""
    with load(with_eap=False, tries=30) as work:
        instance.kill("supervisord")
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 50, "answers without a supervisor")
        started = time.perf_counter()
        instance.up()
        note("supervisord killed: up again", time.perf_counter() - started)
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 50, "answers after the start")
    note("supervisord killed: silence on the wire during up", work.longest_silence_seconds)
    instance.wait_until_well()
    work.assert_nothing_lost()


@pytest.mark.long
def test_down_stops_processes_without_their_supervisors(instance):
    radiusd = instance.pid("radiusd")
    for pid in [instance.pid("supervisord"), instance.pid("agent")]:
        os.kill(pid, signal.SIGKILL)
    assert instance.pid("radiusd") == radiusd
    done = instance.admit("down")
    assert done.returncode == 0, done.stderr
    assert instance.processes() == []
    instance.up()


@contextmanager
def memory_limit(instance, limit_bytes):
    """Set the limit in admit.env and run `./admit up`, as an administrator does."""
    file = instance.layout.env_file
    before = file.read_text()
    file.write_text(f"{before}\nADMIT_CELL_MEMORY_BYTES={limit_bytes}\n")
    instance.up()
    try:
        yield
    finally:
        file.write_text(before)
        instance.up()
        instance.wait_until_well()


@pytest.mark.long
def test_radiusd_over_its_limit_is_replaced_without_loss(instance, load, note):
    held = until(lambda: instance.status()["memory"]["anonymous_bytes"], "what radiusd holds is told")
    with memory_limit(instance, held // 2):
        with load(per_second=50, with_eap=False) as work:
            until(lambda: instance.counter("radiusd_renewals"), "radiusd is exchanged")
            until(lambda: instance.alarm("memory-exchange"), "an alarm tells of it")
            assert "ADMIT_CELL_MEMORY_BYTES" in instance.alarm("memory-high")
            at = len(work.answers)
            until(lambda: len(work.answers) > at + 100, "answers of the new radiusd")
        note("radiusd above its limit: silence on the wire during its exchange", work.longest_silence_seconds)
        instance.wait_until_shipped()
    work.assert_served()
    work.assert_accounting_stored_once()
    assert not instance.alarm("memory-high")


def _running(instance, name):
    try:
        return instance.pid(name)
    except (ProcessLookupError, OSError):
        return 0


@pytest.mark.long
def test_cell_taken_over_by_another_host_is_served_only_there(instance, tenants):
    agent, radiusd = instance.pid("agent"), instance.pid("radiusd")
    instance.query("UPDATE cells SET host = 'another', agent_seen_at = now()")
    try:
        until(lambda: not procfs.is_running(agent) and not procfs.is_running(radiusd), "agent and radiusd end")
        until(lambda: "waiting for the agent on the other machine" in instance.log("agent"), "the next agent waits")
        assert "Host another already serves cell 'cell-1'" in instance.log("agent")
        assert not _running(instance, "radiusd")
    finally:
        instance.query("UPDATE cells SET host = ''")
    until(lambda: _running(instance, "radiusd"), "radiusd is back")
    instance.wait_until_well()
