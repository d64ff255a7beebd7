"""Rate and size limits for one source address."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote_from_bytes

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.bodies import BodyTooLarge, BodyTooSlow, read_body
from api.public import ocsp
from api.public.main import create_app
from api.source_rate_limit import SourceTokenBuckets
from nac.kit.request_sources import get_source
from nac.kit.settings import Settings
from tests.api.app_server import serve_app, serve_app_on_port
from tests.factories.certificates import Certified
from tests.run_depth import examples


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bucket_allows_a_burst_then_refills() -> None:
    clock = Clock()
    buckets = SourceTokenBuckets(5, clock=clock)
    assert [buckets.take("a") for _ in range(10)] == [0.0] * 10
    assert buckets.take("a") == pytest.approx(0.2)
    assert buckets.take("b") == 0.0
    clock.now += 0.1
    assert buckets.take("a") == pytest.approx(0.1)
    clock.now += 0.1001
    assert buckets.take("a") == 0.0
    clock.now += 1000
    assert [buckets.take("a") for _ in range(11)].count(0.0) == 10


def test_idle_sources_are_evicted() -> None:
    buckets = SourceTokenBuckets(0.5, most=2, clock=Clock())
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
