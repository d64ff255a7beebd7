"""Consecutive free loopback ports.

Seconds pass between the search and the binding, so each pytest process searches its own range.
"""

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

# Below the kernel's ephemeral ports (ip(7)), which the other tests use.
_PORTS = range(20_000, 32_000)
_PARTS = 8
_random = SystemRandom()


def free_row(*, udp: int, tcp: int = 0) -> int:
    """The first of `udp` free UDP ports in sequence. The first `tcp` of these numbers are free TCP ports too."""
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
