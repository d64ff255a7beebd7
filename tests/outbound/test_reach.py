"""The check of outbound addresses, independent of earlier DNS responses."""

import asyncio
import ipaddress
import socket

import httpx
import pytest

from nac.kit.outbound.http_client import OutboundTransport
from nac.kit.outbound.reach import DEFAULT_REACH, AddressRefused, OutboundReach, is_own_address
from nac.kit.outbound.tls import tls_context
from tests.outbound.listener import has_connected, listening


@pytest.mark.parametrize(
    "address",
    ["192.0.2.7", "10.0.0.1", "172.16.9.9", "192.168.1.1", "100.64.0.1", "2001:db8::1", "fd12::1", "64:ff9b::c000:207"],
)
def test_unicast_addresses_are_allowed(address):
    assert DEFAULT_REACH.why_not(address) == ""


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("0.0.0.0", "not a server's address"),  # noqa: S104 -- refused
        ("::", "not a server's address"),
        ("::127.0.0.1", "not a server's address"),
        ("255.255.255.255", "not a server's address"),
        ("2002:7f00:1::1", "not a server's address"),
        ("64:ff9b:1::7f00:1", "not a server's address"),
        ("fec0::1", "not a server's address"),
    ],
)
def test_non_server_addresses_are_rejected(address, what):
    assert what in DEFAULT_REACH.why_not(address)


def test_platform_settings_allow_and_block_networks():
    reach = OutboundReach.parse("127.0.0.0/8 !10.1.0.0/16  !127.0.0.9/32")
    assert str(reach) == "127.0.0.0/8 !10.1.0.0/16 !127.0.0.9/32"
    assert OutboundReach.parse(str(reach)) == reach
    assert reach.why_not("127.0.0.1") == reach.why_not("::ffff:127.0.0.1") == reach.why_not("10.2.0.1") == ""
    for address in ("10.1.0.1", "::ffff:10.1.0.1", "127.0.0.9"):
        assert "refused by the platform" in reach.why_not(address)
    assert "link-local" in reach.why_not("169.254.169.254")


@pytest.mark.parametrize(
    ("networks", "address", "permitted"),
    [
        ((), "93.184.216.34", True),
        ((), "127.0.0.1", False),
        (("10.1.0.0/16",), "10.1.2.3", True),
        (("10.1.0.0/16",), "::ffff:10.1.2.3", True),
        (("10.1.0.0/16",), "10.2.0.1", False),
        (("10.1.0.0/16",), "93.184.216.34", False),
        # A tenant cannot add networks to those of the platform.
        (("127.0.0.0/8",), "127.0.0.1", False),
    ],
)
def test_platform_and_tenant_must_both_allow_an_address(networks, address, permitted):
    assert (DEFAULT_REACH.within(networks, remedy="").why_not(address) == "") == permitted


def test_own_addresses_of_this_machine_are_recognised():
    assert is_own_address(ipaddress.ip_address("127.0.0.1"))
    assert not is_own_address(ipaddress.ip_address("192.0.2.1"))


def lookups(monkeypatch, *answers):
    """Resolve names with a list of responses. Returns the list of resolved names."""
    asked, left = [], list(answers)

    def getaddrinfo(host, port, **given):
        if given.get("flags"):
            raise socket.gaierror
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_name_is_resolved_once_and_filtered_by_address(monkeypatch):
    asked = lookups(monkeypatch, ["127.0.0.1", "192.0.2.7"], ["169.254.169.254"])
    places = asyncio.run(DEFAULT_REACH.places("rebound.example", 636))
    assert [place.address for place in places] == [("192.0.2.7", 636)]
    with pytest.raises(AddressRefused, match=r"^rebound\.example: 169\.254\.169\.254 .* ADMIT_OUTBOUND_NETWORKS"):
        asyncio.run(DEFAULT_REACH.places("rebound.example", 636))
    assert asked == ["rebound.example"] * 2


@pytest.mark.parametrize(
    ("address", "remedy"),
    [("192.0.2.7", "Choose another network."), ("127.0.0.1", "ADMIT_OUTBOUND_NETWORKS"), ("10.1.0.1", None)],
)
def test_error_names_the_role_that_can_fix_it(monkeypatch, address, remedy):
    lookups(monkeypatch, [address])
    reach = DEFAULT_REACH.within(["10.1.0.0/16", "127.0.0.0/8"], remedy="Choose another network.")
    if remedy is None:
        assert asyncio.run(reach.places("hook.example", 443))
        return
    with pytest.raises(AddressRefused) as caught:
        asyncio.run(reach.places("hook.example", 443))
    known = ("Choose another network.", "ADMIT_OUTBOUND_NETWORKS")
    assert [each for each in known if each in str(caught.value)] == [remedy]


@pytest.fixture
def listener():
    with listening() as listener:
        yield listener


def test_transport_connects_to_the_checked_address(listener, monkeypatch):
    """The name resolves to loopback at first and to another address later. It is resolved once."""
    asked = lookups(monkeypatch, ["127.0.0.1"], ["192.0.2.7"])

    async def run():
        transport = OutboundTransport(OutboundReach.parse("127.0.0.0/8"), tls=tls_context(), connections=1)
        async with httpx.AsyncClient(transport=transport, timeout=0.2) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(f"http://rebound.example:{listener.getsockname()[1]}/")

    asyncio.run(run())
    assert has_connected(listener)
    assert asked == ["rebound.example"]
