"""A cell that listens on `::`. Each port accepts IPv4 and IPv6, also after a new radiusd took over the ports."""

import socket
import time

import pytest

from cli.demo.tools import RadiusServer
from nac.kit.settings_values import bind_socket
from radius.agent.radiusd.generation import PortTaken, free_ports, require_free_ports
from tests.agent.conftest import adopted_radiusd
from tests.agent.steady_load import Load

MAC = "00:00:5e:00:53:01"
ADDRESSES = ("127.0.0.1", "::1")


@pytest.fixture
def radiusd(tmp_path):
    with adopted_radiusd(tmp_path, "::") as radiusd:
        yield radiusd


def test_replacement_under_load_of_both_families_drops_nothing(radiusd):
    facts, pid = radiusd.generation.facts, radiusd.running.pid
    servers = [RadiusServer(host, facts.ports[0], facts.ports[1], facts.endpoints[0].secret) for host in ADDRESSES]
    with Load(servers, MAC, per_second=200).running() as load:
        since = time.monotonic()
        for _ in range(2):
            time.sleep(0.3)
            assert radiusd.renew(is_quiet=lambda _: True) == ""
        time.sleep(0.3)
        until_then = time.monotonic()
        load.settle(until_then)
    assert radiusd.running.pid != pid
    for server in servers:
        figures = load.figures(server, since, until_then)
        assert figures.sent > 50
        assert figures.dropped == 0
    for port in facts.ports:
        for address in ("0.0.0.0", "::"):  # noqa: S104
            with pytest.raises(OSError, match="in use"):
                bind_socket(address, port, socket.SOCK_DGRAM, reuses=True)


def test_port_in_use_for_ipv4_is_reported(radiusd):
    facts = radiusd.generation.facts
    radiusd.stop()
    require_free_ports(facts)
    port = facts.ports[1]
    with (
        bind_socket("127.0.0.1", port, socket.SOCK_DGRAM),
        pytest.raises(PortTaken, match=rf"UDP port {port} of 0\.0\.0\.0 is in use"),
    ):
        require_free_ports(facts)


def test_free_ports_are_free_in_both_families():
    ports = free_ports("::", 20)
    assert len(set(ports)) == 20
    for port in ports:
        for address in ADDRESSES:
            bind_socket(address, port, socket.SOCK_DGRAM).close()
