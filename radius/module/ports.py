"""Takeover of ports by a new radiusd without a gap (docs/adr/0016).

The agent requests each step by Status-Server with a word in User-Name. On Linux, of several UDP sockets with one
address, one port and SO_REUSEADDR, the last bound one receives. So the old radiusd answers packets it has read, and
receives again if the new one ends. The new one starts on other ports; its file descriptors are then replaced with
sockets bound here.
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

# radiusd sets them before binding; Python has no names for the first two (ip(7), ip.h).
_IP_MTU_DISCOVER, _IP_PKTINFO = 10, 8
_OPTIONS = {
    socket.AF_INET: ((socket.IPPROTO_IP, _IP_MTU_DISCOVER), (socket.IPPROTO_IP, _IP_PKTINFO)),
    socket.AF_INET6: (
        (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY),
        (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO),
    ),
}

_cell: Cell
# New sockets, by the file descriptor that each replaces.
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
    """File descriptors of this process by bound port, one for each family. Raises LookupError if one is missing."""
    listeners: dict[int, list[int]] = {port: [] for port in ports}
    for each in list_udp_sockets():
        if each.port in listeners:
            listeners[each.port].append(each.descriptor)
    if missing := sorted(port for port, descriptors in listeners.items() if not descriptors):
        raise LookupError(f"no socket is bound to port {missing}")
    return listeners


def _share_ports() -> None:
    """Allow another process to bind the ports; it then receives."""
    _set_shared(_cell.settings.ports, shared=True)


def _set_shared(ports: Iterable[int], *, shared: bool) -> None:
    for descriptor in chain.from_iterable(find_listeners(ports).values()):
        with duplicate_socket(descriptor) as each:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)


def _bind_ports() -> None:
    """Bind the ports: packets wait here from now on."""
    _bind_some(slice(1, None))


def _bind_some(which: slice) -> None:
    """Bind all of them or none."""
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
            # radiusd polls once more than there are packets.
            made.setblocking(False)
            made.bind((model.getsockname()[0], port))
        except OSError:
            made.close()
            raise
    return made


def _leave_pools() -> None:
    """Stop assigning pool addresses, which the other radiusd does now. Packets already read are still answered."""
    auth.get_address_assigner().leave()


def _take_ports() -> None:
    # The status port comes last, because the steps arrive there.
    _bind_some(slice(1))
    with ExitStack() as kept:
        for descriptor, made in _bound_sockets.items():
            before = kept.enter_context(duplicate_socket(descriptor))
            os.dup2(made.fileno(), descriptor, inheritable=False)
            # No other process may bind it any more.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, False)
            made.close()
        _bound_sockets.clear()
        # Wake radiusd's own thread, which waits for the previous sockets.
        with socket.socket(before.family, socket.SOCK_DGRAM) as waking:
            waking.sendto(b"", before.getsockname())


def _keep_ports() -> None:
    """Resume after the takeover was abandoned."""
    auth.get_address_assigner().resume()
    _set_shared(_cell.settings.ports, shared=False)


_STEPS = {"share": _share_ports, "bind": _bind_ports, "leave": _leave_pools, "take": _take_ports, "stay": _keep_ports}
