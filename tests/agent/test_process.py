"""Checks of radiusd: whether its process is alive, and whether it responds late or not at all."""

import hashlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from nac.kit.radius_packet import ACCESS_REJECT
from radius.agent.radiusd import probe, process
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


SECRET = "secret-of-the-probe"


class LateServer(threading.Thread):
    """Answers only its first packet, after `delay_seconds`, as radiusd does with a reject."""

    def __init__(self, delay_seconds):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self._delay_seconds = delay_seconds

    def run(self):
        request, asker = self.socket.recvfrom(4096)
        time.sleep(self._delay_seconds)
        head = bytes((ACCESS_REJECT, request[1], 0, 20))
        # RFC 2865 3: the Response Authenticator.
        signature = hashlib.md5(head + request[4:20] + SECRET.encode(), usedforsecurity=False).digest()
        self.socket.sendto(head + signature, asker)


def test_reject_delayed_past_the_next_check_is_accepted():
    server = LateServer(1.2)
    server.start()
    assert probe.is_deciding("127.0.0.1", server.port, SECRET, seconds=5)
    server.join()
    server.socket.close()


def test_exited_radiusd_is_not_awaited():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        asked = time.monotonic()
        assert not probe.is_deciding("127.0.0.1", silent.getsockname()[1], SECRET, seconds=30, alive=lambda: False)
        assert time.monotonic() - asked < 5
