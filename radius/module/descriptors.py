"""The UDP sockets of radiusd, in whose process the module is.

Only of sockets is a second descriptor made: one of a journal's file would hold its lock for as long as it is open, and
with any one of the replica's that is closed the locks of this process are gone (fcntl(2), F_SETLK)."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress

FAMILIES = (socket.AF_INET, socket.AF_INET6)


def udp_sockets() -> Iterator[tuple[int, int]]:
    """File descriptor and port of each."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket_of(descriptor) as each:
                    found = each.type == socket.SOCK_DGRAM and each.family in FAMILIES
                    port = each.getsockname()[1] if found else 0
                if found:
                    yield descriptor, port


def socket_of(descriptor: int) -> socket.socket:
    """By a descriptor of its own; `descriptor` is a socket's."""
    return socket.socket(fileno=os.dup(descriptor))
