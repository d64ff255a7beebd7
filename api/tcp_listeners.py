"""TCP sockets of an HTTP process: one for each address family."""

import logging
import socket
import sys
from contextlib import ExitStack

from uvicorn.config import STARTUP_FAILURE

from nac.kit.listen_addresses import bind_socket, bound_addresses

_log = logging.getLogger("admit.listening")


def open_listeners(listen_address: str, port: int) -> list[socket.socket]:
    """Open the sockets. Exits the process if an address or port is not available, as uvicorn does."""
    with ExitStack() as undone:
        opened = []
        for address in bound_addresses(listen_address):
            try:
                # Connections in TIME_WAIT do not block the port.
                listener = undone.enter_context(bind_socket(address, port, socket.SOCK_STREAM, reuses=True))
            except OSError as exc:
                _log.error("cannot listen on %s, port %d: %s", address, port, exc)
                sys.exit(STARTUP_FAILURE)
            # Worker processes inherit the socket.
            listener.set_inheritable(True)
            opened.append(listener)
        undone.pop_all()
    return opened
