"""Connections of whoever knows no end: a request is bounded before any application sees it."""

import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, Request

from api import connections
from tests.api.served import served_on_port


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    app = FastAPI()

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    @app.get("/slow")
    def slow() -> None:
        time.sleep(1)

    with served_on_port(app) as url:
        host, port = url.removeprefix("http://").split(":")
        yield host, int(port)


def _is_closed_while_sending(address: tuple[str, int], beginning: bytes, more: bytes) -> bool:
    with socket.create_connection(address, timeout=10) as sock:
        try:
            sock.sendall(beginning)
            for _ in range(4 * connections.REQUEST_BYTES_MOST // len(more)):
                sock.sendall(more)
            return sock.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True


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
def test_request_without_an_end_is_cut_off(address: tuple[str, int], beginning: bytes, more: bytes) -> None:
    assert _is_closed_while_sending(address, beginning, more)


@pytest.mark.parametrize("beginning", [b"", b"GET /slow HTTP/1.1\r\n"])
def test_who_does_not_come_to_the_point_is_hung_up_on(address: tuple[str, int], beginning: bytes) -> None:
    with socket.create_connection(address, timeout=10) as sock:
        sock.sendall(beginning)
        assert sock.recv(1) == b""


def test_answer_that_takes_long_and_several_requests_of_a_connection_are_served(address: tuple[str, int]) -> None:
    half = b"x" * (connections.REQUEST_BYTES_MOST // 2)
    with httpx.Client(base_url="http://{}:{}".format(*address), trust_env=False) as client:
        assert client.get("/slow").status_code == 200
        assert [client.post("/length", content=half).json() for _ in range(4)] == [len(half)] * 4
    head = b"GET /slow HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(address, timeout=10) as sock:
        # Both at once: the second is answered after the first.
        sock.sendall(head + b"\r\n" + head + b"Connection: close\r\n\r\n")
        answer = b""
        while part := sock.recv(4096):
            answer += part
    assert answer.count(b"HTTP/1.1 200 OK") == 2
