"""Jobs give way on a machine that also answers devices: the worker itself, and what PostgreSQL does for it."""

import os
from contextlib import suppress
from pathlib import Path

import psycopg
from sqlalchemy import Engine, event

# About a tenth of the share of a process at 0, where both want the same core (sched(7)); all of it where it is idle.
NICENESS = 10


def give_way() -> None:
    """For this process and those that it starts."""
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def serve_last(engine: Engine) -> Engine:
    """What PostgreSQL does for each connection of `engine` gives way too, where it runs on this machine and as our own
    account or we as root; elsewhere nothing changes."""

    @event.listens_for(engine, "connect")
    def _connected(connection: psycopg.Connection, _record: object) -> None:
        backend = connection.info.backend_pid
        # Of a server on another machine the number is none, or is somebody else's process.
        with suppress(OSError):
            if not Path(f"/proc/{backend}/cmdline").read_bytes().startswith(b"postgres: "):
                return
            os.setpriority(os.PRIO_PROCESS, backend, NICENESS)
            # Every backend is a session of its own (setsid), among which the kernel shares cores first.
            Path(f"/proc/{backend}/autogroup").write_text(f"{NICENESS}\n")

    return engine
