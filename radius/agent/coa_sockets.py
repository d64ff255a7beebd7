"""Sockets for requests to NASes and their responses."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

Sockets = dict[socket.AddressFamily, socket.socket]


@contextmanager
def open_sockets(address: str) -> Iterator[Sockets]:
    """Sockets on the address that NASes know; one of each family if the cell listens on all. Raises OSError."""
    every = address in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
    with ExitStack() as stack:
        sockets: Sockets = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            if every or (family == socket.AF_INET6) == (":" in address):
                sockets[family] = bound = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.setblocking(False)
                bound.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0) if every else (address, 0))  # noqa: S104
        yield sockets
