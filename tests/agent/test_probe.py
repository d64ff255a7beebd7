"""The agent's health checks of radiusd when the response is late or missing."""

import hashlib
import socket
import threading
import time

from nac.kit.radius_packet import ACCESS_REJECT
from radius.agent.radiusd import probe

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
