"""A hanging radiusd, stopped with SIGSTOP, and a hanging agent, whose one thread holds the interpreter lock."""

import os
import signal
import subprocess
import sys

from radius.agent.alarms import Alarms
from radius.agent.radiusd import process
from radius.agent.radiusd.hang_watch import RADIUSD_SILENCE_SECONDS, HangWatch
from radius.agent.radiusd.probe import is_serving
from tests.replica.reader_process import ROOT


def _answers(radiusd):
    status = radiusd.generation.facts.status
    return is_serving("127.0.0.1", status.port, status.secret, seconds=1)


def test_hanging_radiusd_is_killed_and_restarted(radiusd, clock):
    alarms = Alarms()
    watch = HangWatch(radiusd, alarms, journal_size=lambda: 0, clock=clock)
    hung = radiusd.running
    watch.look(answers=_answers(radiusd))
    os.kill(hung.pid, signal.SIGSTOP)
    watch.look(answers=_answers(radiusd))
    clock.now = RADIUSD_SILENCE_SECONDS - 1
    watch.look(answers=False)
    radiusd.tick()
    assert (radiusd.running, alarms.standing()) == (hung, [])
    clock.now = RADIUSD_SILENCE_SECONDS
    watch.look(answers=False)
    assert not process.is_alive(hung)
    radiusd.tick()
    assert _answers(radiusd)
    assert [alarm.code for alarm in alarms.standing()] == ["radiusd-hung"]
    assert radiusd.restarts == 1


def test_radiusd_that_sometimes_writes_or_answers_keeps_running(radiusd, clock):
    size = [0]
    watch = HangWatch(radiusd, Alarms(), journal_size=lambda: size[0], clock=clock)
    busy = radiusd.running
    for second in range(4 * int(RADIUSD_SILENCE_SECONDS)):
        clock.now = float(second)
        size[0] += second % 15 == 0
        watch.look(answers=False)
    for second in range(4 * int(RADIUSD_SILENCE_SECONDS)):
        clock.now += 1.0
        watch.look(answers=second % 15 == 0)
    assert process.is_alive(busy)


_ONE_THREAD_TAKES_ALL = """
import ctypes, threading
from radius.agent.radiusd import hang_watch

hang_watch.WATCHDOG_INTERVAL_SECONDS, hang_watch.AGENT_HANG_SECONDS = 0.1, 1.0
threading.Thread(target=hang_watch.run_watchdog, args=(threading.Event(),), daemon=True).start()
threading.Event().wait(0.5)
# A call that does not let go of the interpreter's lock.
ctypes.PyDLL(None).sleep(50)
"""


def test_agent_with_starved_threads_logs_the_stack_and_exits():
    script = [sys.executable, "-c", _ONE_THREAD_TAKES_ALL]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False, timeout=40)
    assert done.returncode == 1
    assert 'File "<string>", line 9 in <module>' in done.stderr
