"""Limits for one source address: requests per second, open connections, pending requests behind a proxy, and sizes."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import quote_from_bytes

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.bodies import BodyTooLarge, BodyTooSlow, read_body
from api.concurrency_limit import ConcurrencyLimit
from api.connections import BoundedHttp
from api.public import ocsp
from api.public.main import create_app
from api.source_rate_limit import SourceRateLimit, SourceTokenBuckets
from nac.kit.request_sources import NetworkSet, get_source
from nac.kit.settings import Settings
from tests.api.app_server import serve_app, serve_app_on_port
from tests.factories.certificates import Certified
from tests.polling import until
from tests.run_depth import examples


def test_bucket_allows_a_burst_then_refills() -> None:
    now = 100.0
    buckets = SourceTokenBuckets(5, clock=lambda: now)
    assert [buckets.take("a") for _ in range(10)] == [0.0] * 10
    assert (buckets.take("a"), buckets.take("b")) == (pytest.approx(0.2), 0.0)
    now += 0.1
    assert buckets.take("a") == pytest.approx(0.1)
    now += 0.1001
    assert buckets.take("a") == 0.0
    now += 1000
    assert [buckets.take("a") for _ in range(11)].count(0.0) == 10


def test_idle_sources_are_evicted() -> None:
    buckets = SourceTokenBuckets(0.5, most=2, clock=lambda: 100.0)
    assert [buckets.take(source) > 0 for source in ("a", "b", "a", "c", "a", "b")] == [0, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_household_network_is_one_source(address: str, source: str) -> None:
    assert get_source(address) == source


@pytest.fixture
def limited(public_settings: Settings) -> Iterator[httpx.Client]:
    with serve_app(create_app(replace(public_settings, public_requests_per_second=1))) as client:
        yield client


def test_rate_limited_client_gets_retry_after(limited: httpx.Client, alpha: Certified):
    path = f"/ca/{alpha.authorities.root.id}.cer"
    replies = [limited.get(path) for _ in range(6)]
    assert [reply.status_code for reply in replies[:2]] == [200, 200]
    refused = replies[-1]
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["code"] == "too-many-requests"
    assert limited.post(f"/ocsp/{alpha.authorities.root.id}", content=b"x").status_code == 429
    # The limit does not count health probes.
    assert limited.get("/readyz").status_code == 200


def _read(*parts: bytes, length: str = "", most: int = 10, slow: bool = False) -> bytes:
    headers = [(b"content-length", length.encode())] if length else []
    waiting = list(parts)

    async def receive() -> dict[str, object]:
        if slow:
            await asyncio.sleep(10)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def read() -> bytes:
        return await read_body({"type": "http", "headers": headers}, receive, most_octets=most, seconds=0.05)

    return asyncio.run(read())


def test_body_is_read_up_to_its_limit() -> None:
    assert _read(b"12345", b"67890") == b"1234567890"
    for parts, length in (((b"12345", b"678901"), ""), ((b"never read",), "11"), ((b"",), "-1"), ((b"",), "9" * 30)):
        with pytest.raises(BodyTooLarge):
            _read(*parts, length=length)
    with pytest.raises(BodyTooSlow):
        _read(b"x", slow=True)


def test_stalled_request_is_disconnected(public_settings: Settings, alpha: Certified, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ocsp, "_BODY_TIMEOUT_SECONDS", 0.3)
    with serve_app_on_port(create_app(public_settings)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            head = f"POST /ocsp/{alpha.authorities.root.id} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"
            sock.sendall(head.encode())
            answer = b""
            while part := sock.recv(4096):
                answer += part
    assert answer.startswith(b"HTTP/1.1 408 ")


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    kind=st.sampled_from(["ocsp", "crl", "ca"]),
    known=st.booleans(),
    rest=st.text(max_size=60),
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS"]),
    body=st.binary(max_size=200),
)
def test_no_request_crashes_the_server(
    client: httpx.Client, alpha: Certified, kind: str, known: bool, rest: str, method: str, body: bytes
):
    path = f"/{kind}/{alpha.authorities.issuing.id if known else ''}/".encode() + rest.encode("utf-8", "surrogatepass")
    reply = client.request(method, f"http://api{quote_from_bytes(path)}", content=body)
    assert reply.status_code < 500


def test_source_slots_are_limited_and_released() -> None:
    places = ConcurrencyLimit(2, what="connections")
    first, second = places.take("192.0.2.1"), places.take("192.0.2.1")
    assert None not in (first, second)
    assert places.take("192.0.2.1") is None
    assert places.take("192.0.2.2") is not None
    for _ in range(2):
        first.leave()
    assert places.take("192.0.2.1") is not None
    assert places.take("192.0.2.1") is None
    unlimited = ConcurrencyLimit(0, what="connections")
    assert None not in [unlimited.take("192.0.2.1") for _ in range(1000)]


def test_household_shares_slots_within_the_total() -> None:
    places = ConcurrencyLimit(1, what="connections", most_in_all=2)
    taken = [places.take(each) for each in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "192.0.2.1")]
    assert [each is not None for each in taken] == [True, False, True, False]


def test_rejections_are_logged_at_intervals(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    places = ConcurrencyLimit(1, what="connections", clock=lambda: now)
    with caplog.at_level(logging.WARNING, "admit.api"):
        for _ in range(5):
            places.take("192.0.2.1")
        assert len(caplog.records) == 1
        now += 61
        places.take("192.0.2.1")
    told = "192.0.2.1 has 1 connections open, which is the limit: rejecting further connections"
    assert [record.getMessage() for record in caplog.records] == [told] * 2


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
