"""HTTP processes: several of the API, started with the supervisor's command, and their listeners."""

import http.client
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from api.public.__main__ import create_server
from api.public.main import create_app
from api.tcp_listeners import open_listeners
from cli import health
from cli.layout import Layout
from cli.passwords import Passwords
from cli.procfs import list_processes
from cli.programs import list_programs
from nac.kit.settings import Settings
from tests.api.app_server import settings_of_public
from tests.factories.certificates import write_master_key
from tests.polling import until
from tests.ports import free_row
from tests.postgres import Database

# Each process imports the whole API.
_PATIENCE_SECONDS = 120


@pytest.fixture
def parent(database: Database, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The running API: its process id and its address."""
    port = free_row(udp=1, tcp=4)
    variables = {
        "ADMIT_VAR_DIR": str(tmp_path),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_REDIS_URL": "unix:///nonexistent",
        "ADMIT_MASTER_KEY_FILE": str(write_master_key(tmp_path)),
        "ADMIT_LISTEN_ADDRESS": "::",
        "ADMIT_API_PORT": str(port),
        "ADMIT_API_PROCESSES": "2",
    }
    layout = Layout(tmp_path, tmp_path / "run", tmp_path / "postgres", None, None)
    [api] = [each for each in list_programs(layout, Passwords(b"seed")) if each.name == "api"]
    with subprocess.Popen(api.command, env=os.environ | variables, stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid, f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)


def _serving(parent: int) -> set[int]:
    """Child processes, except the helper process of multiprocessing."""
    children = [each.pid for each in list_processes() if each.parent == parent]
    return {pid for pid in children if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()}


def _is_well(url: str) -> bool:
    try:
        # The client uses no TLS, because loading all CA certificates takes longer than a request.
        return httpx.get(f"{url}/healthz", trust_env=False, timeout=5, verify=False).status_code == 200  # noqa: S501
    except httpx.TransportError:
        return False


def test_killed_process_restarts_while_others_serve(parent: tuple[int, str]) -> None:
    pid, url = parent
    until(lambda: _is_well(url), "answers", seconds=_PATIENCE_SECONDS)
    first = until(lambda: len(_serving(pid)) == 2 and _serving(pid), "two processes")
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    until(lambda: _is_well(url), "answers by the other")
    assert _is_well(url.replace("127.0.0.1", "[::1]")), "over IPv6 as well"
    until(lambda: len(_serving(pid)) == 2 and killed not in _serving(pid), "two processes again")
    assert first & _serving(pid), "the other one went on"


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
