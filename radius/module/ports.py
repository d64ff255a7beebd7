"""One radiusd takes the ports of another, so that there is no moment in which nobody listens (docs/adr/0016).

The agent asks for it step by step, by Status-Server with a word in User-Name. On Linux of several UDP sockets of one
address and port that all have SO_REUSEADDR the one bound last gets what comes. So the old one answers what it has read,
and has its ports again where the new one ends. The new one was started on other ports; in its file descriptors the
sockets are then exchanged for those bound here.
"""

import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain

from radius.module import auth
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, log_exception, the_cell
from radius.module.descriptors import socket_of, udp_sockets

# Set by radiusd when it binds; Python has no names for the first two (ip(7), ip.h).
_IP_MTU_DISCOVER, _IP_PKTINFO = 10, 8
_OPTIONS = {
    socket.AF_INET: ((socket.IPPROTO_IP, _IP_MTU_DISCOVER), (socket.IPPROTO_IP, _IP_PKTINFO)),
    socket.AF_INET6: (
        (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY),
        (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO),
    ),
}

_cell: Cell
# By the file descriptor that each is to take.
_bound: dict[int, socket.socket] = {}


def instantiate(_: object) -> int:
    global _cell
    _cell = the_cell()
    return radiusd.OK


def authorize(pairs: radiusd.Pairs) -> radiusd.Answer:
    try:
        _STEPS[dict(pairs)["User-Name"]]()
    except Exception:  # house-rule: the edge of our code; the agent goes another way, with the trace in the log
        log_exception("ports")
        return radiusd.REJECT
    return radiusd.OK


def listeners(ports: Iterable[int]) -> dict[int, list[int]]:
    """File descriptors of this very process, by the port they are bound to: one for each family. Raises LookupError
    where there is none."""
    found: dict[int, list[int]] = {port: [] for port in ports}
    for each in udp_sockets():
        if each.port in found:
            found[each.port].append(each.descriptor)
    if missing := sorted(port for port, descriptors in found.items() if not descriptors):
        raise LookupError(f"no socket is bound to {missing}")
    return found


def _share() -> None:
    """Another may bind the ports too, for as long as it takes: whoever does gets what comes."""
    _set_shared(_cell.settings.ports, shared=True)


def _set_shared(ports: Iterable[int], *, shared: bool) -> None:
    for descriptor in chain.from_iterable(listeners(ports).values()):
        with socket_of(descriptor) as each:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)


def _bind() -> None:
    """From now on what comes waits here."""
    _bind_some(slice(1, None))


def _bind_some(which: slice) -> None:
    """All of them or none."""
    settings = _cell.settings
    temporary, ports = settings.started_on[which], settings.ports[which]
    descriptors = listeners(temporary)
    with ExitStack() as undone:
        bound = {}
        for before, port in zip(temporary, ports, strict=True):
            for descriptor in descriptors[before]:
                bound[descriptor] = undone.enter_context(_bound_like(descriptor, port))
        undone.pop_all()
    _bound.update(bound)


def _bound_like(descriptor: int, port: int) -> socket.socket:
    with socket_of(descriptor) as model:
        made = socket.socket(model.family, socket.SOCK_DGRAM)
        try:
            for level, option in _OPTIONS[model.family]:
                made.setsockopt(level, option, model.getsockopt(level, option))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
            # radiusd looks once more than something comes.
            made.setblocking(False)
            made.bind((model.getsockname()[0], port))
        except OSError:
            made.close()
            raise
    return made


def _leave() -> None:
    """What was read is answered still; addresses of pools are given by the other one from now on."""
    auth.address_giver().leave()


def _take() -> None:
    # The port that is asked for these steps comes last: until now the other one was.
    _bind_some(slice(1))
    with ExitStack() as kept:
        for descriptor, made in _bound.items():
            before = kept.enter_context(socket_of(descriptor))
            os.dup2(made.fileno(), descriptor, inheritable=False)
            # Nobody else may bind it from now on.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, False)
            made.close()
        _bound.clear()
        # radiusd's own thread waits for the sockets of before: it must wake to see the others.
        with socket.socket(before.family, socket.SOCK_DGRAM) as waking:
            waking.sendto(b"", before.getsockname())


def _stay() -> None:
    """The other one did not come."""
    auth.address_giver().resume()
    _set_shared(_cell.settings.ports, shared=False)


_STEPS = {"share": _share, "bind": _bind, "leave": _leave, "take": _take, "stay": _stay}
