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
    """What PostgreSQL does for each connection of `engine` gives way too, where it runs on this machine; elsewhere
    nothing changes."""

    @event.listens_for(engine, "connect")
    def _connected(connection: psycopg.Connection, _record: object) -> None:
        backend = connection.info.backend_pid
        # Of a server on another machine the number is none, or is somebody else's process.
        with suppress(OSError, psycopg.Error):
            if not Path(f"/proc/{backend}/cmdline").read_bytes().startswith(b"postgres: "):
                return
            try:
                os.setpriority(os.PRIO_PROCESS, backend, NICENESS)
                # Every backend is a session of its own (setsid), among which the kernel shares cores first.
                Path(f"/proc/{backend}/autogroup").write_text(f"{NICENESS}\n")
            except PermissionError:
                _ask_to_give_way(connection)

    return engine


def _ask_to_give_way(connection: psycopg.Connection) -> None:
    """Of PostgreSQL under another account, which does it itself where `up` has set that up (migrations/machine.sql)."""
    connection.autocommit = True
    try:
        found = connection.execute("SELECT to_regprocedure('machine.give_way()') IS NOT NULL").fetchone()
        if found == (True,):
            connection.execute("SELECT machine.give_way()")
    finally:
        connection.autocommit = False
