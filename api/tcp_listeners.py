"""The TCP sockets of an HTTP process: one for each family that it listens on."""

import logging
import socket
import sys
from contextlib import ExitStack

from uvicorn.config import STARTUP_FAILURE

from nac.listen_addresses import bind_socket, bound_addresses

_log = logging.getLogger("admit.listening")


def open_listeners(listen_address: str, port: int) -> list[socket.socket]:
    """Ends the process where an address or the port cannot be had, as uvicorn does."""
    with ExitStack() as undone:
        opened = []
        for address in bound_addresses(listen_address):
            try:
                # Connections that linger in TIME_WAIT take nothing.
                listener = undone.enter_context(bind_socket(address, port, socket.SOCK_STREAM, reuses=True))
            except OSError as exc:
                _log.error("nothing can listen on %s, port %d: %s", address, port, exc)
                sys.exit(STARTUP_FAILURE)
            # Processes that are started for it have it, too.
            listener.set_inheritable(True)
            opened.append(listener)
        undone.pop_all()
    return opened
