"""Checks before a start that the ports are free. The check of radiusd (`radiusd -C`) does not open ports."""

import errno
import socket
from collections.abc import Iterable

from cli.errors import Refused
from nac.kit.listen_addresses import bind_socket, bound_addresses
from nac.kit.settings import Settings


def require_free_ports(settings: Settings, *, running: Settings | None = None) -> None:
    """Check the ports of the cell and of the API. Raises Refused for the first port that another program uses.

    `running` contains the settings of the running processes. Ports of these processes count as free.
    """
    cell_held = running.cell_ports if running else range(0)
    # Port 0 is any free port, so this tests whether the address belongs to the machine.
    needed = [0, *(port for port in settings.cell_ports if port not in cell_held)]
    taken = first_taken(settings.listen_address, needed, socket.SOCK_DGRAM)
    if taken:
        raise Refused(
            f"UDP port {taken} of {settings.listen_address} is taken. The cell needs ports"
            f" {settings.cell_ports.start} to {settings.cell_ports.stop - 1}.",
            remedy="Use other ports: ./admit up --first-port PORT.",
        )
    http_held = running.http_ports if running else range(0)
    needed = [port for port in settings.http_ports if port not in http_held]
    if taken := first_taken(settings.listen_address, needed, socket.SOCK_STREAM):
        raise Refused(
            f"TCP port {taken} of {settings.listen_address} is taken. The API needs ports"
            f" {settings.http_ports.start} to {settings.http_ports[-1]}.",
            remedy="Use another port: ./admit up --api-port PORT.",
        )


def first_taken(address: str, ports: Iterable[int], kind: socket.SocketKind) -> int | None:
    """Return the first of `ports` that another program uses. Raises Refused if the machine does not have `address`."""
    for port in ports:
        for each in bound_addresses(address):
            try:
                # As in api/tcp_listeners.py: connections in TIME_WAIT do not block a port.
                bind_socket(each, port, kind, reuses=kind == socket.SOCK_STREAM).close()
            except OSError as exc:
                if exc.errno == errno.EADDRINUSE:
                    return port
                if exc.errno == errno.EADDRNOTAVAIL:
                    raise Refused(f"This machine does not have the address {each}.") from exc
                raise Refused(f"Cannot use port {port} of {each}: {exc.strerror}.") from exc
    return None
