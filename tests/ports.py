"""Free ports of loopback in a row, for what is started with its first port.

From looking to binding takes seconds: each of pytest's processes looks among ports of its own.
"""

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

# Below the kernel's ephemeral ports (ip(7)), from which the other tests' free ports come.
_PORTS = range(20_000, 32_000)
_PARTS = 8
_random = SystemRandom()


def free_row(*, udp: int, tcp: int = 0) -> int:
    """The first of so many UDP ports, and of so many TCP ports of the same numbers."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    size = len(_PORTS) // _PARTS
    own = _PORTS[worker % _PARTS * size :][:size]
    for _ in range(100):
        first = _random.choice(own[: -max(udp, tcp)])
        if _are_free(socket.SOCK_DGRAM, first, udp) and _are_free(socket.SOCK_STREAM, first, tcp):
            return first
    raise AssertionError("no free ports")


def _are_free(kind: socket.SocketKind, first: int, count: int) -> bool:
    with ExitStack() as held:
        for port in range(first, first + count):
            try:
                held.enter_context(socket.socket(socket.AF_INET, kind)).bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
