"""Radiusd processes, and other real processes in their place."""

import subprocess
import sys
from pathlib import Path

from radius.agent.radiusd import process
from tests.polling import until

_FIRST_THREAD_ENDS_FIRST = """
import ctypes, signal, threading
threading.Thread(target=signal.pause).start()
print("two threads", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_process_with_only_its_main_thread_dead_is_alive():
    """The kernel ends the threads of a killed process one by one. Its ports stay in use until the last thread ends."""
    child = subprocess.Popen([sys.executable, "-c", _FIRST_THREAD_ENDS_FIRST], stdout=subprocess.PIPE, text=True)
    try:
        running = process.RunningRadiusd(child.pid, process.start_ticks(child.pid), Path("/nowhere"))
        assert child.stdout.readline() == "two threads\n"
        until(lambda: ") Z " in Path(f"/proc/{child.pid}/stat").read_text(), "the first thread has ended")
        assert process.is_alive(running)
        child.kill()
        until(lambda: not process.is_alive(running), "its end")
    finally:
        child.kill()
        child.communicate()
