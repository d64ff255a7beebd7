"""Listen addresses. `::` means all addresses, IPv4 and IPv6."""

import socket
from typing import Final

_ANY_IPV4, _ANY_IPV6 = "0.0.0.0", "::"  # noqa: S104 -- an address that the operator chooses


_LOCAL_ADDRESSES: Final = {_ANY_IPV4: "127.0.0.1", _ANY_IPV6: "::1"}


def bound_addresses(listen_address: str) -> tuple[str, ...]:
    """Return the addresses to bind. `::` needs two addresses (IPv6 and IPv4), because radiusd and asyncio accept no
    IPv4 on an IPv6 socket."""
    return (_ANY_IPV6, _ANY_IPV4) if listen_address == _ANY_IPV6 else (listen_address,)


def local_address(address: str) -> str:
    """Return the address at which this machine reaches a service on `address`."""
    return _LOCAL_ADDRESSES.get(address, address)


def bind_socket(address: str, port: int, kind: socket.SocketKind, *, reuses: bool = False) -> socket.socket:
    """Return a socket that is bound to the address. An IPv6 socket accepts no IPv4. Raises OSError."""
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    try:
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if reuses:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    return bound
