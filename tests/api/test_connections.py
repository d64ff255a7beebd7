"""Limits on connections and requests before they reach an application."""

import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, Request

from api import connections
from tests.api.app_server import serve_app_on_port


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_SECONDS", 0.5)
    app = FastAPI(redirect_slashes=False)

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    @app.get("/slow")
    def slow() -> None:
        time.sleep(0.6)

    with serve_app_on_port(app) as url:
        host, port = url.removeprefix("http://").split(":")
        yield host, int(port)


def _read_to_end(address: tuple[str, int], beginning: bytes, more: bytes) -> bytes:
    """Read until the server closes the connection."""
    response = b""
    with socket.create_connection(address, timeout=10) as sock:
        try:
            sock.sendall(beginning)
            for _ in range(4 * connections.MAX_REQUEST_BYTES // len(more) if more else 0):
                sock.sendall(more)
            while part := sock.recv(4096):
                response += part
        except (ConnectionResetError, BrokenPipeError):
            # A client that is still sending may miss the response.
            return response
    return response


def _require_problem(response: bytes, status: int) -> None:
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), response
    assert {b"content-type: application/problem+json", b"connection: close"} <= set(head.lower().split(b"\r\n"))
    problem = json.loads(body)
    assert problem["status"] == status
    assert problem["detail"].endswith(".")


@pytest.mark.parametrize(
    ("beginning", "more"),
    [
        (b"GET /slow HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n" * 1000),
        (b"GET /slow HTTP/1.1\r\nHost: x\r\nX: ", b"y" * 8192),
        (b"GET /", b"y" * 8192),
        (b"POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 1000),
    ],
    ids=["headers", "one header", "path", "trailers"],
)
def test_unterminated_request_is_cut_off(address: tuple[str, int], beginning: bytes, more: bytes) -> None:
    response = _read_to_end(address, beginning, more)
    if response and b" 200 OK" not in response:
        _require_problem(response, 413 if b"POST" in beginning else 431)


@pytest.mark.parametrize("beginning", [b"", b"GET /slow HTTP/1.1\r\n"])
def test_slow_request_is_disconnected(address: tuple[str, int], beginning: bytes) -> None:
    response = _read_to_end(address, beginning, b"")
    if beginning:
        _require_problem(response, 408)
    else:
        assert response == b""


_POST = b"POST /length HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET /slow HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET /sl ow HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /slow HTTP/1.1\r\nHost: x\r\nX y\r\n\r\n",
        b"GET /slow HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        _POST + b"Content-Length: -1\r\n\r\n",
        _POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        _POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        _POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        _POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
def test_non_http_bytes_get_an_error_response(address: tuple[str, int], request_: bytes) -> None:
    _require_problem(_read_to_end(address, request_, b""), 400)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /slow HTTP/1.0\r\n\r\n", 200),
        (b"GET http://elsewhere/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"GET /sl%6fw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"GET /slow/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"TRACE /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /slow HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n", 200),
        (_POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200),
    ],
)
def test_unusual_http_is_served_normally(address: tuple[str, int], request_: bytes, status: int) -> None:
    response = _read_to_end(address, request_, b"")
    assert response.startswith(b"HTTP/1.1 %d " % status), response


def test_slow_responses_and_pipelined_requests_are_served(address: tuple[str, int]) -> None:
    half = b"x" * (connections.MAX_REQUEST_BYTES // 2)
    with httpx.Client(base_url="http://{}:{}".format(*address), trust_env=False) as client:
        assert client.get("/slow").status_code == 200
        assert [client.post("/length", content=half).json() for _ in range(4)] == [len(half)] * 4
    head = b"GET /slow HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(address, timeout=10) as sock:
        # The client sends two requests at once. The second response comes after the first.
        sock.sendall(head + b"\r\n" + head + b"Connection: close\r\n\r\n")
        answer = b""
        while part := sock.recv(4096):
            answer += part
    assert answer.count(b"HTTP/1.1 200 OK") == 2
