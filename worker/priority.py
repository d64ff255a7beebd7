"""Lowers the CPU priority of jobs, and of PostgreSQL's work for jobs, because the machine also serves devices."""

import os
from contextlib import suppress
from pathlib import Path

import psycopg
from sqlalchemy import Engine, event

# Gets about a tenth of the CPU time of a process with niceness 0, if both need the same core (sched(7)). Can use an
# idle core completely.
NICENESS = 10


def lower_priority() -> None:
    """Lower the priority of this process and of child processes."""
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def lower_connection_priority(engine: Engine) -> Engine:
    """Lower the priority of PostgreSQL's backends for `engine`. Does nothing if PostgreSQL runs on another machine."""

    @event.listens_for(engine, "connect")
    def _connected(connection: psycopg.Connection, _record: object) -> None:
        backend = connection.info.backend_pid
        # If the server is on another machine, its process id does not exist here, or belongs to another process.
        with suppress(OSError, psycopg.Error):
            if not Path(f"/proc/{backend}/cmdline").read_bytes().startswith(b"postgres: "):
                return
            try:
                os.setpriority(os.PRIO_PROCESS, backend, NICENESS)
                # The kernel first divides CPU time among sessions (setsid), and each backend has its own session. So
                # lower the session's share.
                Path(f"/proc/{backend}/autogroup").write_text(f"{NICENESS}\n")
            except PermissionError:
                _request_lower_priority(connection)

    return engine


def _request_lower_priority(connection: psycopg.Connection) -> None:
    """Lower the priority of this connection's process in PostgreSQL, which may run as another system user.

    `admit up` must have created the function (migrations/machine.sql).
    """
    connection.autocommit = True
    try:
        row = connection.execute("SELECT to_regprocedure('machine.give_way()') IS NOT NULL").fetchone()
        if row == (True,):
            connection.execute("SELECT machine.give_way()")
    finally:
        connection.autocommit = False
