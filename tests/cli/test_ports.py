import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.errors import Refused
from cli.ports import first_taken, require_free_ports
from nac.kit.settings import Settings, load_settings

# An address of the loopback network that no other test uses.
ADDRESS = f"127.88.{os.getpid() % 250}.1"


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def settings(first_port: int, api_port: int, **more: str) -> Settings:
    values = {"VAR_DIR": "/x", "LISTEN_ADDRESS": ADDRESS, "CELL_SLOTS": "2", **more}
    values |= {"CELL_FIRST_PORT": str(first_port), "API_PORT": str(api_port)}
    return load_settings({f"ADMIT_{name}": value for name, value in values.items()})


@contextmanager
def taken_port(kind: socket.SocketKind) -> Iterator[int]:
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind((ADDRESS, 0))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        yield int(holder.getsockname()[1])


def test_taken_port_is_named_with_a_remedy():
    with (
        taken_port(socket.SOCK_DGRAM) as port,
        pytest.raises(Refused, match=rf"UDP port {port} of {ADDRESS} is taken.*--first-port"),
    ):
        require_free_ports(settings(port - 3, free_port(socket.SOCK_STREAM)))
    # The second of the API's three ports.
    with (
        taken_port(socket.SOCK_STREAM) as port,
        pytest.raises(Refused, match=rf"TCP port {port} of {ADDRESS} is taken.*--api-port"),
    ):
        require_free_ports(settings(free_port(socket.SOCK_DGRAM), port - 1))


@pytest.mark.parametrize("address", [ADDRESS, "::"], ids=["same family", "both families"])
def test_port_is_free_after_its_holder_exits(address: str):
    with taken_port(socket.SOCK_DGRAM) as port:
        assert first_taken(address, [port], socket.SOCK_DGRAM) == port
    assert first_taken(address, [port], socket.SOCK_DGRAM) is None


def test_address_of_another_machine_is_rejected():
    # RFC 5737: documentation, on no machine.
    with pytest.raises(Refused, match=r"not have the address 192\.0\.2\.1"):
        require_free_ports(settings(18120, 8460, LISTEN_ADDRESS="192.0.2.1"))
