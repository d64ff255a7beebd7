"""Health checks of the processes. The checks use no database driver, so that `status` is fast.

A check returns "" if the process is healthy, otherwise a short text for people.
"""

import http.client
import json
import re
import socket
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli import cluster
from cli.layout import Layout
from nac.kit.clock import epoch_microseconds
from nac.kit.listen_addresses import bound_addresses, local_address
from nac.kit.request_sources import NetworkSet
from nac.kit.settings import Settings
from worker.constants import ALARMS_KEY, HEARTBEAT_INTERVAL_SECONDS, HEARTBEAT_KEY

# Maximum age of the worker's and the agent's last report, in seconds. The agent writes its status every second.
_HEARTBEAT_SECONDS = 4 * HEARTBEAT_INTERVAL_SECONDS
_STATUS_SECONDS = 10
_REPLY_BYTES = 1 << 16


def find_problem(name: str, layout: Layout, settings: Settings, *, started_at: float = 0) -> str:
    """Return the problem of process `name`, or "". Ignores reports from before `started_at` (epoch seconds)."""
    match name:
        case "postgres":
            return cluster.connection_problem(layout)
        case "redis":
            return _redis(settings)
        case "agent":
            return _agent(settings.cell_dir, started_at)
        case "api":
            return _http(settings.listen_address, settings.api_port)
        case "public":
            return _http(settings.listen_address, settings.public_port)
        case "enrolment":
            return _enrolment(settings)
        case "mailbox":
            return _mailbox(settings)
        case "worker":
            return _worker(settings, started_at)
    raise ValueError(name)


def read_platform_alarms(settings: Settings) -> list[dict[str, str]]:
    """Return the alarms that the worker last reported; empty if Redis does not respond, which another check reports."""
    try:
        alarms = json.loads(_ask_redis(settings, f"GET {ALARMS_KEY}"))
    except (OSError, ValueError):
        return []
    return alarms if isinstance(alarms, list) else []


def _ask_redis(settings: Settings, command: str) -> str:
    """Send a command to Redis. Return the first line of the reply, or of the content of a bulk string (RESP).

    Raises OSError.
    """
    place = urlsplit(settings.redis_url)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect(place.path)
        if place.password:
            reply = _send_redis_command(connection, f"AUTH {place.username} {place.password}")
            if reply != "+OK":
                return reply
        return _send_redis_command(connection, command)


def _send_redis_command(connection: socket.socket, command: str) -> str:
    connection.sendall(f"{command}\r\n".encode())
    reply = connection.recv(_REPLY_BYTES)
    length = re.match(rb"\$(\d+)\r\n", reply)
    whole = length.end() + int(length[1]) if length else len(reply)
    while len(reply) < min(whole, _REPLY_BYTES) and (more := connection.recv(_REPLY_BYTES)):
        reply += more
    lines = reply.decode("utf-8", "replace").split("\r\n")
    return lines[1] if lines[0].startswith("$") and lines[0] != "$-1" else lines[0]


def _mailbox(settings: Settings) -> str:
    """Return the problem of the process `mailbox`, which must send an SMTP greeting (RFC 5321 3.1); "" if healthy."""
    try:
        with socket.create_connection(("127.0.0.1", settings.mailbox_port), timeout=2) as connection:
            greeting = connection.recv(_REPLY_BYTES)
    except OSError as exc:
        return f"does not respond ({exc.strerror or exc})"
    return "" if greeting.startswith(b"220") else "responds, but not like a mail server"


def _redis(settings: Settings) -> str:
    try:
        reply = _ask_redis(settings, "PING")
    except OSError as exc:
        return f"does not respond ({exc.strerror or exc})"
    return "" if reply == "+PONG" else f"responds with {reply!r}"


def _worker(settings: Settings, started_at: float) -> str:
    try:
        reply = _ask_redis(settings, f"GET {HEARTBEAT_KEY}")
    except OSError:
        return "unknown: Redis does not respond"
    if not reply.isdigit() or int(reply) < int(started_at):
        return "has not run a job yet"
    age = epoch_microseconds() // 1_000_000 - int(reply)
    return "" if age <= _HEARTBEAT_SECONDS else f"ran its last job {age} s ago"


class _TlsConnection(http.client.HTTPConnection):
    """TLS connection that does not verify the certificate, because the check needs only the response."""

    # Header of the PROXY protocol, if the listener expects this header from this machine.
    announcement = b""

    def connect(self) -> None:
        super().connect()
        self.sock.sendall(self.announcement)
        context = ssl._create_unverified_context()  # noqa: S323
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


def _enrolment(settings: Settings) -> str:
    def connection(host: str) -> http.client.HTTPConnection:
        made = _TlsConnection(host, settings.enrolment_port, timeout=3)
        if host in NetworkSet(settings.enrolment_proxies):
            made.announcement = b"PROXY UNKNOWN\r\n"
        return made

    return _check_each_address(settings.listen_address, connection)


def _http(address: str, port: int) -> str:
    return _check_each_address(address, lambda host: http.client.HTTPConnection(host, port, timeout=3))


def _check_each_address(listen_address: str, connection: Callable[[str], http.client.HTTPConnection]) -> str:
    """Check each listen address, and return the first problem, or ""."""
    hosts = [local_address(address) for address in bound_addresses(listen_address)]
    return next(filter(None, (_check_readiness(connection(host)) for host in hosts)), "")


def _check_readiness(connection: http.client.HTTPConnection) -> str:
    try:
        connection.request("GET", "/readyz")
        reply = connection.getresponse()
        body = reply.read()
    except (OSError, http.client.HTTPException) as exc:
        return f"does not respond ({getattr(exc, 'strerror', None) or exc})"
    finally:
        connection.close()
    if reply.status == http.client.OK:
        return ""
    try:
        return f"is not ready: {json.loads(body)['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"responds with HTTP status {reply.status}"


def read_cell_status(cell_dir: Path) -> dict[str, Any]:
    """Return the last status of the cell that the agent wrote (`radius.agent.status`); {} if the file is missing or
    unreadable.
    """
    try:
        status = json.loads((cell_dir / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def _agent(cell_dir: Path, started_at: float) -> str:
    status = read_cell_status(cell_dir)
    at = reported_at(status)
    if at < int(started_at) or not at:
        return "has not reported yet"
    age = epoch_microseconds() / 1e6 - at
    if age > _STATUS_SECONDS:
        return f"last reported {age:.0f} s ago"
    return "" if status.get("state") == "serving" else f"reports that the cell is {status.get('state')}"


def reported_at(status: dict[str, Any]) -> float:
    """Return the time when the agent wrote `status`, in epoch seconds; 0 if unknown."""
    try:
        return datetime.fromisoformat(status["at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0
