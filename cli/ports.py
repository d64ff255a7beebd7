"""Whether the ports are free, before anything is started: radiusd's own check does not bind (`radiusd -C`)."""

import errno
import socket
from collections.abc import Iterable

from cli.fail import Refused
from nac.listen_addresses import bind_socket, bound_addresses
from nac.settings import Settings


def require_free_ports(settings: Settings, *, running: Settings | None = None) -> None:
    """Raise Refused with the first port of cell or API that somebody else holds.

    With `running`, the ports that the running processes were started with count as free: they are about to be given up.
    """
    cell_held = running.cell_ports if running else range(0)
    # Port 0 is any free one: it tells whether the address is this machine's where all else is held.
    wanted = [0, *(port for port in settings.cell_ports if port not in cell_held)]
    taken = first_taken(settings.listen_address, wanted, socket.SOCK_DGRAM)
    if taken:
        raise Refused(
            f"UDP port {taken} of {settings.listen_address} is taken; the cell needs"
            f" {settings.cell_ports.start} to {settings.cell_ports.stop - 1}.",
            remedy="Choose others: ./admit up --first-port PORT.",
        )
    http_held = running.http_ports if running else range(0)
    wanted = [port for port in settings.http_ports if port not in http_held]
    if taken := first_taken(settings.listen_address, wanted, socket.SOCK_STREAM):
        raise Refused(
            f"TCP port {taken} of {settings.listen_address} is taken; the API needs"
            f" {settings.http_ports.start} to {settings.http_ports[-1]}.",
            remedy="Choose another: ./admit up --api-port PORT.",
        )


def first_taken(address: str, ports: Iterable[int], kind: socket.SocketKind) -> int | None:
    """The first of `ports` that cannot be bound. Raises Refused where `address` is none of this machine's."""
    for port in ports:
        for each in bound_addresses(address):
            try:
                # As api/tcp_listeners.py does: connections that linger in TIME_WAIT take nothing.
                bind_socket(each, port, kind, reuses=kind == socket.SOCK_STREAM).close()
            except OSError as exc:
                if exc.errno == errno.EADDRINUSE:
                    return port
                if exc.errno == errno.EADDRNOTAVAIL:
                    raise Refused(f"This machine has no address {each} to listen on.") from exc
                raise Refused(f"Port {port} of {each} cannot be used: {exc.strerror}.") from exc
    return None
