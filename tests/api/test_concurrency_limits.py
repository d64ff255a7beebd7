"""Limits of concurrency per source: open connections, or pending requests behind a proxy."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI

from api.concurrency_limit import ConcurrencyLimit
from api.connections import BoundedHttp
from api.source_rate_limit import SourceRateLimit
from nac.kit.request_sources import NetworkSet
from tests.api.app_server import serve_app_on_port
from tests.polling import until


def test_source_slots_are_limited_and_released() -> None:
    places = ConcurrencyLimit(2, what="connections")
    first, second = places.take("192.0.2.1"), places.take("192.0.2.1")
    assert first is not None
    assert second is not None
    assert places.take("192.0.2.1") is None
    assert places.take("192.0.2.2") is not None
    first.leave()
    first.leave()
    assert places.take("192.0.2.1") is not None
    assert places.take("192.0.2.1") is None


def test_household_shares_slots_within_the_total() -> None:
    places = ConcurrencyLimit(1, what="connections", most_in_all=2)
    assert places.take("2001:db8::1") is not None
    assert places.take("2001:db8::2") is None
    assert places.take("2001:db8:0:1::1") is not None
    assert places.take("192.0.2.1") is None


def test_zero_disables_the_limit() -> None:
    places = ConcurrencyLimit(0, what="connections")
    assert None not in [places.take("192.0.2.1") for _ in range(1000)]


def test_rejections_are_logged_at_intervals(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    places = ConcurrencyLimit(1, what="connections", clock=lambda: now)
    with caplog.at_level(logging.WARNING, "admit.api"):
        for _ in range(5):
            places.take("192.0.2.1")
        assert len(caplog.records) == 1
        now += 61
        places.take("192.0.2.1")
    assert [record.getMessage() for record in caplog.records] == [
        "192.0.2.1 has 1 connections open, which is the limit: rejecting further connections"
    ] * 2


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("127.0.0.1,10.0.0.0/8", ["127.0.0.1", "10.9.9.9", "::ffff:10.0.0.1"], ["127.0.0.2", "11.0.0.1", "x", ""]),
        ("2001:db8::/32", ["2001:db8::1"], ["2001:db9::1", "10.0.0.1"]),
        ("", [], ["127.0.0.1", "::1"]),
    ],
)
def test_networks_contain_their_addresses(text: str, inside: list[str], outside: list[str]) -> None:
    networks = NetworkSet(text)
    assert all(address in networks for address in inside)
    assert not any(address in networks for address in outside)


class HeldApplication:
    """An application whose requests wait until the test releases them."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.go_on = threading.Event()

        @self.app.get("/wait")
        def wait() -> None:
            assert self.go_on.wait(20)

        @self.app.get("/")
        def root() -> str:
            return "here"


def _is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def _is_served(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).json() == "here"
    except httpx.TransportError:
        return False


@pytest.fixture
def held() -> Iterator[HeldApplication]:
    held = HeldApplication()
    yield held
    held.go_on.set()


def test_source_at_its_limit_does_not_block_other_sources(held: HeldApplication) -> None:
    http = BoundedHttp.with_limit(ConcurrencyLimit(3, what="connections"), proxies=NetworkSet(""))
    with serve_app_on_port(held.app, http=http) as url, ExitStack() as stack:
        address = url.removeprefix("http://").split(":")
        for _ in range(3):
            stack.enter_context(socket.create_connection((address[0], int(address[1])), timeout=10))
        with socket.create_connection((address[0], int(address[1])), timeout=10) as fourth:
            assert _is_closed(fourth)
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=other, trust_env=False) as client:
            assert client.get(url).json() == "here"
        stack.close()
        # A source that closes its connections may connect again.
        until(lambda: _is_served(url), "a connection in the place of one that was closed")


def test_proxied_requests_count_for_the_named_client(held: HeldApplication) -> None:
    held.app.add_middleware(SourceRateLimit, per_second=0, at_once=2)
    http = BoundedHttp.with_limit(ConcurrencyLimit(2, what="connections"), proxies=NetworkSet("127.0.0.1"))
    with (
        serve_app_on_port(held.app, http=http, proxy_headers=True, forwarded_allow_ips="127.0.0.1") as url,
        ExitStack() as stack,
    ):
        # The proxy has more connections than the limit of one source.
        host, port = url.removeprefix("http://").split(":")
        for _ in range(2):
            waiting = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            waiting.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
        with httpx.Client(base_url=url, trust_env=False) as client:

            def reply(source: str) -> httpx.Response:
                return client.get("/", headers={"X-Forwarded-For": source})

            until(lambda: reply("192.0.2.1").status_code == 429, "a refusal, as both requests are under way")
            assert reply("192.0.2.1").headers["retry-after"] == "1"
            assert reply("192.0.2.2").status_code == 200
            held.go_on.set()
            until(lambda: reply("192.0.2.1").status_code == 200, "an answer, as nothing is under way")
