"""Each process is killed with SIGKILL under load.

It is restarted automatically, and no record is lost or duplicated.
"""

import os
import signal
import time

import pytest

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
    """Each process is killed, and its supervisor restarts it.

    One radiusd answers every request, and every decision and acknowledged record is stored once.
    """
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
    instance.wait_until_shipped()
    work.assert_undisturbed()
    work.assert_decisions_stored()
    work.assert_accounting_stored_once()
    assert instance.pid("radiusd") == instance.status()["radiusd_pid"] == radiusd


def test_killed_radiusd_is_restarted_and_keeps_its_records(instance, load, note):
    """`radiusd` is killed, and the agent restarts it.

    NASes retransmit, so every request is answered, and every acknowledged record is stored once.
    """
    restarts = instance.counter("radiusd_restarts")
    with load(with_eap=False) as work:
        killed = instance.kill("radiusd")
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 100, "answers of another radiusd")
    note("radiusd killed: silence on the wire", work.longest_silence_seconds)
    instance.wait_until_shipped()
    work.assert_served()
    work.assert_decisions_stored_at_least()
    work.assert_accounting_stored_once()
    assert instance.pid("radiusd") != killed
    until(lambda: instance.counter("radiusd_restarts") == restarts + 1, "the restart is counted")
    until(lambda: not instance.complaints(), "the cell is well")


@pytest.mark.long
def test_killed_radiusd_is_restarted_while_postgresql_hangs(instance, tenants, note):
    """PostgreSQL hangs with open connections of the agent, and radiusd is killed.

    The restart must not wait for PostgreSQL.
    """
    until(lambda: instance.status()["database"], "the cell reports to PostgreSQL")
    with instance.frozen("postgres"), NasPackets(tenants[0]) as wire:
        until(lambda: not instance.status()["database"], "the cell notices that PostgreSQL hangs")
        killed = instance.kill("radiusd")
        note("radiusd killed while PostgreSQL hangs: answers", seconds_until(wire.is_admitted, "an answer"))
        assert instance.pid("radiusd") != killed


def test_record_repeated_to_a_new_radiusd_is_stored_once(instance, tenants):
    """A NAS that lost the response retransmits to a new radiusd, which does not know the first response.

    The record is acknowledged again, but stored once.
    """
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
    """The PostgreSQL process that stores accounting is killed repeatedly.

    The position stored with each batch determines the records that are sent again.
    """
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
    instance.wait_until_shipped()
    work.assert_undisturbed()
    work.assert_decisions_stored()
    work.assert_accounting_stored_once()


@pytest.mark.long
def test_killed_supervisor_is_replaced_by_the_next_up(instance, load, note):
    """`supervisord` is killed, and its children continue. The next `./admit up` stops and restarts everything.

    NASes that retransmit get responses, and no acknowledged record is lost or duplicated.
    """
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
    instance.wait_until_shipped()
    work.assert_served()
    work.assert_decisions_stored_at_least()
    work.assert_accounting_stored_once()


@pytest.mark.long
def test_down_stops_processes_without_their_supervisors(instance):
    """`supervisord` and agent are killed together, so radiusd has no parent. `./admit down` still stops radiusd."""
    radiusd = instance.pid("radiusd")
    for pid in [instance.pid("supervisord"), instance.pid("agent")]:
        os.kill(pid, signal.SIGKILL)
    assert instance.pid("radiusd") == radiusd
    done = instance.admit("down")
    assert done.returncode == 0, done.stderr
    assert instance.processes() == []
    instance.up()
