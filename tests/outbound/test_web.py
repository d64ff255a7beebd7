"""HTTP requests of Admit, whose responses are limited in size and time."""

import asyncio
import socket
import ssl

import pytest

from nac.kit.clock import utc_now
from nac.kit.outbound.http_client import FetchFailed, HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.kit.outbound.tls import tls_context
from tests.certificates.publisher import publishing
from tests.certificates.uploads import authority
from tests.outbound.listener import listening


@pytest.fixture
def publisher(tmp_path):
    with publishing(tmp_path, authority("Corp CA", utc_now())) as publisher:
        yield publisher


def fetch(url, *, most_bytes=100, **limits):
    async def run():
        async with OutboundTransport(OutboundReach.parse("127.0.0.0/8"), tls=tls_context(), connections=1) as transport:
            return await HttpClient(transport, **limits).fetch(url, most_bytes=most_bytes)

    return asyncio.run(run())


def test_response_is_read_only_up_to_the_limit(publisher):
    publisher.pages["/"] = (200, b"x" * 100)
    assert fetch(publisher.url("/")) == b"x" * 100
    publisher.pages["/"] = (200, b"x" * 101)
    with pytest.raises(FetchFailed, match="more than 100 bytes"):
        fetch(publisher.url("/"))


@pytest.mark.parametrize("limits", [{"total_seconds": 0.2}, {"step_seconds": 0.2}])
def test_silent_server_times_out(limits):
    with listening() as silent, pytest.raises(FetchFailed, match=r"No response within 0\.2 s\.") as failed:
        fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/", **limits)
    assert failed.value.is_slow


def test_server_that_accepts_no_connection_times_out():
    # Linux completes backlog + 1 handshakes.
    with (
        listening(backlog=0) as full,
        socket.create_connection(full.getsockname()),
        pytest.raises(FetchFailed, match=r"No connection within 0\.2 s\.") as failed,
    ):
        fetch(f"http://127.0.0.1:{full.getsockname()[1]}/", step_seconds=0.2)
    assert not failed.value.is_slow


def test_redirect_is_returned_if_not_followed(publisher):
    publisher.pages |= {"/": "/there", "/there": (200, b"here")}
    assert fetch(publisher.url("/")) == b"here"
    with pytest.raises(FetchFailed, match="status 302"):
        fetch(publisher.url("/"), redirects_most=0)
    assert publisher.asked == ["GET /", "GET /there", "GET /"]


def test_error_omits_the_address(publisher):
    with pytest.raises(FetchFailed, match="/hook") as failed:
        fetch(publisher.url("/hook?key=secret"))
    assert failed.value.why == "The server returned status 404."


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://[", "ldap://x.example/", "http://x.example@y/"])
def test_only_the_checked_address_is_contacted(url):
    with pytest.raises(FetchFailed, match="Invalid URL"):
        fetch(url)


def test_invalid_name_or_redirect_is_reported(publisher):
    names = ("http://xn--/", "http://xn--a/", "http://[v1.x]/", "http://a..b/")
    for url in names:
        with pytest.raises(FetchFailed):
            fetch(url)
    for location in (*names, "http://[", "http://[::1", "//[x]/"):
        publisher.pages["/"] = location
        with pytest.raises(FetchFailed):
            fetch(publisher.url("/"))


@pytest.mark.parametrize("url", ["http://xn--/", "http://xn--a/"])
def test_nothing_is_posted_to_an_invalid_name(url):
    async def run():
        async with OutboundTransport(OutboundReach.parse("127.0.0.0/8"), tls=tls_context(), connections=1) as transport:
            await HttpClient(transport).post(url, body=b"", headers={}, most_bytes=100)

    with pytest.raises(FetchFailed):
        asyncio.run(run())


@pytest.mark.parametrize("text", ["x", "\u202e", "-----BEGIN CERTIFICATE-----\nß\n-----END CERTIFICATE-----", "\ufffe"])
def test_invalid_certificates_are_rejected(text):
    with pytest.raises((ssl.SSLError, ValueError)):
        tls_context(text)
