"""How what cannot serve refuses to start, and what makes it refuse."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


def assert_one_sentence(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Nothing but the refusal on standard error: no trace, no second error, no more than two sentences."""
    assert done.returncode != 0, done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert all(part in lines[0] for part in parts), lines[0]


@contextmanager
def bound(kind: socket.SocketKind, port: int) -> Iterator[None]:
    """A port of loopback that is somebody else's."""
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        yield
