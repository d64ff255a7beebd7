"""Failures to start: their message, and conditions that cause them."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def assert_one_sentence(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check that standard error contains only one error of at most two sentences, and no traceback."""
    assert done.returncode != 0, done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert all(part in lines[0] for part in parts), lines[0]


@contextmanager
def occupied_port(kind: socket.SocketKind, port: int) -> Iterator[None]:
    """A loopback port that another program uses."""
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        yield
