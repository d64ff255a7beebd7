"""HEAD on the wire: the headers of GET without its body."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from api.head_requests import HeadAsGet, mark_get_only
from api.main import create_app
from nac.kit.settings import Settings
from tests.api.app_server import serve_app, serve_app_on_port

MADE: list[str] = []
PIECES = 1_000


def _pieces() -> Iterator[str]:
    for number in range(PIECES):
        MADE.append(str(number))
        yield f"data: {number}\n\n"


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    """An application with one route of each kind."""
    app = FastAPI()
    MADE.clear()
    (tmp_path / "file").write_bytes(b"x" * 10_000_000)
    app.get("/stream")(lambda: StreamingResponse(_pieces(), media_type="text/event-stream"))
    app.get("/file")(lambda: FileResponse(tmp_path / "file"))
    app.post("/posted")(lambda: Response("posted"))
    app.get("/both")(lambda: Response("got"))
    app.delete("/both")(lambda: Response("deleted"))
    app.get("/wrong")(lambda: 1 / 0)

    @app.get("/method")
    def method(request: Request) -> Response:
        return Response(request.method, headers={"Seen": request.method})

    @app.get("/once")
    @mark_get_only
    def once() -> Response:
        MADE.append("once")
        return Response("done")

    app.add_middleware(HeadAsGet)
    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[httpx.Client]:
    with serve_app(app) as client:
        yield client


def test_application_receives_a_get(client: httpx.Client) -> None:
    reply = client.head("/method")
    assert (reply.status_code, reply.headers["seen"], reply.headers["content-length"]) == (200, "GET", "3")


def test_stream_body_is_not_produced(client: httpx.Client) -> None:
    reply = client.head("/stream")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    # The connection stays open.
    assert client.get("/both").text == "got"
    assert len(MADE) < 10


def test_file_head_ignores_range_requests(client: httpx.Client) -> None:
    reply = client.head("/file", headers={"Range": "bytes=0-9"})
    assert (reply.status_code, reply.headers["content-length"]) == (200, "10000000")
    assert client.get("/file", headers={"Range": "bytes=0-9"}).status_code == 206


@pytest.mark.parametrize(("path", "status"), [("/posted", 405), ("/none", 404), ("/once", 405)])
def test_rejected_head_has_no_body(client: httpx.Client, path: str, status: int) -> None:
    reply = client.head(path)
    assert (reply.status_code, reply.content) == (status, b"")
    assert client.get("/both").text == "got"
    assert MADE == []


def test_failed_head_has_no_body(client: httpx.Client) -> None:
    """The server then closes the connection, as it does after a GET."""
    reply = client.head("/wrong")
    assert (reply.status_code, reply.content) == (500, b"")


def test_allow_lists_head_where_get_is_supported(public_settings: Settings) -> None:
    with serve_app(create_app(public_settings)) as client:
        assert client.post("/healthz").headers["allow"] == "GET, HEAD"
        assert client.head("/v1/sign-in").headers["allow"] == "POST"
        assert client.put("/sign-in").headers["allow"] == "GET, HEAD, POST"
        for path in ("/healthz", "/readyz", "/sign-in", "/new-password", "/openapi.json"):
            got, head = client.get(path), client.head(path)
            assert head.status_code == got.status_code == 200
            assert set(head.headers) == set(got.headers)
            assert head.headers["content-length"] == got.headers["content-length"]
            assert head.headers["x-request-id"]


def test_no_bytes_follow_the_headers(app: FastAPI) -> None:
    """Checked on the wire: a client would read a body here as the next response."""
    with serve_app_on_port(app) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                b"HEAD /both HTTP/1.1\r\nHost: a\r\n\r\nGET /both HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            )
            with connection.makefile("rb") as reader:
                said = reader.read()
    assert said.count(b"HTTP/1.1 200 OK") == 2
    head, _, rest = said.partition(b"\r\n\r\n")
    assert b"content-length: 3" in head
    assert rest.startswith(b"HTTP/1.1 200 OK")
    assert rest.endswith(b"\r\n\r\ngot")
