"""A listener on loopback. It records whether a connection arrives."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening(backlog: int | None = None) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
        listener.settimeout(0.1)
        yield listener


def has_connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True
