"""UDP sockets of radiusd, listed from inside its process.

This module duplicates only file descriptors of sockets. A second descriptor of a journal file would keep the file's
lock. Closing a second descriptor of a replica file would release the locks of the process (fcntl(2), F_SETLK).
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from radius.module.settings import ModuleSettings

FAMILIES = (socket.AF_INET, socket.AF_INET6)


class UdpSocket(NamedTuple):
    descriptor: int
    family: int
    port: int


class ListenerSockets:
    """UDP listeners of this process by address family and port.

    After a takeover of ports (radius/module/ports.py), radiusd still names the port on which a listener was started.
    """

    def __init__(self, settings: ModuleSettings) -> None:
        self._found: dict[tuple[int, int], socket.socket] = {}
        self._taken = dict(zip(settings.started_on, settings.ports, strict=False))

    def get(self, source: str, port: int) -> socket.socket | None:
        """Listener for packets from the address `source`. `port` is the port on which radiusd started the listener."""
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        taken = self._taken.get(port, port)
        return self._found.get((family, taken)) or self._find(family, taken) or self._find(family, port)

    def _find(self, family: int, port: int) -> socket.socket | None:
        for each in list_udp_sockets():
            if (each.family, each.port) == (family, port):
                duplicate = self._found[family, port] = duplicate_socket(each.descriptor)
                return duplicate
        return None


def list_udp_sockets() -> Iterator[UdpSocket]:
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with duplicate_socket(descriptor) as each:
                    if each.type != socket.SOCK_DGRAM or each.family not in FAMILIES:
                        continue
                    udp_socket = UdpSocket(descriptor, each.family, each.getsockname()[1])
                yield udp_socket


def duplicate_socket(descriptor: int) -> socket.socket:
    """Socket object with its own file descriptor, for the same socket as `descriptor`."""
    return socket.socket(fileno=os.dup(descriptor))
