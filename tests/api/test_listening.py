"""HTTP processes that listen on `::` also accept IPv4."""

import http.client
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from api.public.__main__ import create_server
from api.public.main import create_app
from api.tcp_listeners import open_listeners
from cli import health
from nac.kit.settings import Settings
from tests.api.app_server import settings_of_public
from tests.polling import until
from tests.ports import free_row
from tests.postgres import Database


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    settings = settings_of_public(database, tmp_path, ADMIT_LISTEN_ADDRESS="::")
    return replace(settings, api_port=free_row(udp=0, tcp=4))


def status_of(host: str, port: int) -> int:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


def test_public_process_listens_on_both_families(settings: Settings) -> None:
    listeners = open_listeners(settings.listen_address, settings.public_port)
    server = create_server(create_app(settings), settings)
    thread = threading.Thread(target=server.run, args=(listeners,))
    thread.start()
    try:
        until(lambda: server.started, "it is started")
        assert [status_of(host, settings.public_port) for host in ("127.0.0.1", "::1")] == [200, 200]
        assert health._http("::", settings.public_port) == ""
    finally:
        server.should_exit = True
        thread.join()


def test_same_address_is_bound_once(settings: Settings) -> None:
    [listener] = open_listeners("127.0.0.1", settings.public_port)
    with listener:
        assert listener.getsockname() == ("127.0.0.1", settings.public_port)


def test_taken_ipv4_port_ends_the_process(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            open_listeners("::", port)
    assert f"cannot listen on 0.0.0.0, port {port}: " in caplog.text
