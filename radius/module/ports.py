"""Takes over the ports of a running radiusd for a new radiusd, without a gap (docs/adr/0016).

The agent requests each step by a Status-Server packet with a word in User-Name. On Linux, several UDP sockets can have
the same address and port with SO_REUSEADDR. The socket that was bound last receives the packets. So the old radiusd
only answers packets that it has already read. If the new radiusd ends, the old radiusd receives new packets again. The
new radiusd starts on other ports. This module then binds sockets to the real ports and puts them behind radiusd's file
descriptors.
"""

import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain

from radius.module import auth
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, get_cell, log_exception
from radius.module.udp_sockets import duplicate_socket, list_udp_sockets

# Socket options that radiusd sets before it binds. Python has no names for the first two (ip(7), ip.h).
_IP_MTU_DISCOVER, _IP_PKTINFO = 10, 8
_OPTIONS = {
    socket.AF_INET: ((socket.IPPROTO_IP, _IP_MTU_DISCOVER), (socket.IPPROTO_IP, _IP_PKTINFO)),
    socket.AF_INET6: (
        (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY),
        (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO),
    ),
}

_cell: Cell
# New sockets, by the file descriptor that each will replace.
_bound_sockets: dict[int, socket.socket] = {}


def instantiate(_: object) -> int:
    global _cell
    _cell = get_cell()
    return radiusd.OK


def authorize(pairs: radiusd.Pairs) -> radiusd.ModuleResult:
    try:
        _STEPS[dict(pairs)["User-Name"]]()
    except Exception:  # house-rule: the edge of our code; the agent restarts radiusd instead, with a log line
        log_exception("ports")
        return radiusd.REJECT
    return radiusd.OK


def find_listeners(ports: Iterable[int]) -> dict[int, list[int]]:
    """File descriptors of this process by bound port, one for each address family.

    Raises LookupError if no socket of this process is bound to a port.
    """
    listeners: dict[int, list[int]] = {port: [] for port in ports}
    for each in list_udp_sockets():
        if each.port in listeners:
            listeners[each.port].append(each.descriptor)
    if missing := sorted(port for port, descriptors in listeners.items() if not descriptors):
        raise LookupError(f"no socket is bound to port {missing}")
    return listeners


def _share_ports() -> None:
    """Allow another process to bind the ports.

    After the other process has bound the ports, the sockets of that process receive the packets.
    """
    _set_shared(_cell.settings.ports, shared=True)


def _set_shared(ports: Iterable[int], *, shared: bool) -> None:
    for descriptor in chain.from_iterable(find_listeners(ports).values()):
        with duplicate_socket(descriptor) as each:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)


def _bind_ports() -> None:
    """Bind the ports. From now on, packets wait in the new sockets."""
    _bind_some(slice(1, None))


def _bind_some(which: slice) -> None:
    """Bind all of these ports or none of them."""
    settings = _cell.settings
    temporary, ports = settings.started_on[which], settings.ports[which]
    descriptors = find_listeners(temporary)
    with ExitStack() as undone:
        bound = {}
        for before, port in zip(temporary, ports, strict=True):
            for descriptor in descriptors[before]:
                bound[descriptor] = undone.enter_context(_bound_like(descriptor, port))
        undone.pop_all()
    _bound_sockets.update(bound)


def _bound_like(descriptor: int, port: int) -> socket.socket:
    with duplicate_socket(descriptor) as model:
        made = socket.socket(model.family, socket.SOCK_DGRAM)
        try:
            for level, option in _OPTIONS[model.family]:
                made.setsockopt(level, option, model.getsockopt(level, option))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
            # radiusd reads until no packet is left, so its last read must not wait.
            made.setblocking(False)
            made.bind((model.getsockname()[0], port))
        except OSError:
            made.close()
            raise
    return made


def _leave_pools() -> None:
    """Stop assigning pool addresses, because the other radiusd assigns them now.

    This radiusd still answers packets that it has already read.
    """
    auth.get_address_assigner().leave()


def _take_ports() -> None:
    # The status port comes last, because the agent's commands arrive there.
    _bind_some(slice(1))
    with ExitStack() as kept:
        for descriptor, made in _bound_sockets.items():
            before = kept.enter_context(duplicate_socket(descriptor))
            os.dup2(made.fileno(), descriptor, inheritable=False)
            # Do not allow other processes to bind the port.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, False)
            made.close()
        _bound_sockets.clear()
        # Wake radiusd's network thread, which still waits for packets on the previous sockets.
        with socket.socket(before.family, socket.SOCK_DGRAM) as waking:
            waking.sendto(b"", before.getsockname())


def _keep_ports() -> None:
    """Keep the ports and assign pool addresses again, because the takeover was abandoned."""
    auth.get_address_assigner().resume()
    _set_shared(_cell.settings.ports, shared=False)


_STEPS = {"share": _share_ports, "bind": _bind_ports, "leave": _leave_pools, "take": _take_ports, "stay": _keep_ports}
