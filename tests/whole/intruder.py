"""Lists the resources that an attacker in a process can reach, with the user and groups of that process.

It searches every readable file for passwords, and tries each password with each database role and each Redis user.
Input and output are JSON on standard input and standard output.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

_PASSWORD = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LARGEST_BYTES = 1 << 20


def _content(path: Path) -> bytes | None:
    """The content of a file, None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_BYTES)
    except OSError:
        return None


def _files(paths: Iterable[str]) -> dict[str, bytes]:
    contents = {path: _content(Path(path)) for path in paths if not os.path.isdir(path)}
    return {path: content for path, content in contents.items() if content is not None}


def _is_writable(path: str) -> bool:
    mode = os.W_OK | os.X_OK if os.path.isdir(path) else os.W_OK
    return os.access(path, mode, effective_ids=True)


def _readable_processes(pids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The processes whose environment or memory can be read, with their environment."""
    # A process that has regained its own group can do what any process of its user can (ptrace(2)).
    os.setegid(os.getgid())
    for pid in pids:
        environment = _content(Path(f"/proc/{pid}/environ"))
        try:
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        except OSError:
            if environment is None:
                continue
        yield pid, environment or b""


def _is_role(socket: str, role: str, passwords: Iterable[str]) -> bool:
    for password in passwords:
        try:
            psycopg.connect(host=socket, dbname="admit", user=role, password=password, connect_timeout=5).close()
        except psycopg.OperationalError:
            continue
        return True
    return False


def _is_queue_user(socket: str, user: str, passwords: Iterable[str]) -> bool:
    for password in passwords:
        try:
            client = redis.UnixDomainSocketConnection(
                path=socket, username=user, password=password, socket_timeout=5, retry=Retry(NoBackoff(), 0)
            )
            client.connect()
            client.disconnect()
        except redis.RedisError:
            continue
        return True
    return False


def intrude(orders: dict[str, Any]) -> dict[str, list[str]]:
    files = _files(orders["paths"])
    writes = [path for path in orders["paths"] if _is_writable(path)]
    looks_into = dict(_readable_processes(orders["pids"]))
    searched = [orders["environment"].encode(), *files.values(), *looks_into.values()]
    passwords = ["none", *sorted({found.decode() for each in searched for found in _PASSWORD.findall(each)})]
    return {
        "roles": [role for role in orders["roles"] if _is_role(orders["postgres"], role, passwords)],
        "queue_users": [user for user in orders["queue_users"] if _is_queue_user(orders["redis"], user, passwords)],
        "reads": list(files),
        "writes": writes,
        "looks_into": list(looks_into),
    }


if __name__ == "__main__":
    json.dump(intrude(json.load(sys.stdin)), sys.stdout)
