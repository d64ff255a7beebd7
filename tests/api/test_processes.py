"""The API as several processes, started with the supervisor's command."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cli.layout import Layout
from cli.passwords import Passwords
from cli.procfs import list_processes
from cli.programs import list_programs
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
