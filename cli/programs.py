"""Processes that `./admit up` starts, with the command of each process."""

import hashlib
import sys
from pathlib import Path

from cli import environment
from cli.cluster import BINARIES
from cli.layout import CHECKOUT, Layout
from cli.passwords import Passwords
from cli.rights import KEYS_GROUP, OPERATOR, RIGHTS
from cli.supervisor import Program
from nac.kit.private_files import write_private

# The order of these names is the order of start and display. PostgreSQL and Redis stop last, because the other
# processes need them.
STORES = ("postgres", "redis")
OTHERS = ("agent", "api", "public", "enrolment", "mailbox", "worker")
PROGRAM_NAMES = (*STORES, *OTHERS)

# Redis holds no data that must survive, so nothing is written to disk. Redis must not change its process title, because
# this would overwrite the environment by which `down` identifies the process.
_REDIS = """\
port 0
unixsocket {socket}
unixsocketperm 770
user default off
{users}
dir {folder}
daemonize no
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
set-proc-title no
"""


def write_redis_configuration(layout: Layout, passwords: Passwords) -> None:
    accounts = {"operator": OPERATOR} | {name: rights for name, rights in RIGHTS.items() if rights.redis}
    users = "\n".join(_redis_user(name, rights.redis, passwords) for name, rights in accounts.items())
    content = _REDIS.format(socket=layout.redis_socket, folder=layout.var / "redis", users=users)
    write_private(layout.var / "redis" / "redis.conf", content, owner=layout.account("redis"))


def _redis_user(name: str, rules: str, passwords: Passwords) -> str:
    """Return the line that configures a Redis user, with a hash of the user's password."""
    digest = hashlib.sha256(passwords.get("redis", name).encode()).hexdigest()
    return f"user {name} on #{digest} {rules}"


# Feeds and other long jobs can block a worker process for minutes, so all other jobs run in a second process.
WORKER_PROCESSES = 3


def list_programs(layout: Layout, passwords: Passwords) -> list[Program]:
    return [
        Program(
            name,
            command,
            folder,
            layout.account(name),
            environment=environment.credentials(layout, name, RIGHTS[name], passwords),
            effective_group=KEYS_GROUP if layout.is_separated and RIGHTS[name].gives_up_keys else "",
            priority=10 if name in STORES else 30 if name == "agent" else 40,
            stop_signal="INT" if name == "postgres" else "TERM",
            stop_seconds=30 if name == "postgres" else 20,
            starts_with_supervisor=name in STORES,
        )
        for name, (command, folder) in _commands(layout).items()
    ]


def _commands(layout: Layout) -> dict[str, tuple[tuple[str, ...], Path]]:
    """Return command and working folder of each process."""
    python = (sys.executable, "-P", "-m")
    schedule = layout.var / "worker" / "beat-schedule"
    return {
        "postgres": ((str(BINARIES / "postgres"), "-D", str(layout.postgres)), layout.postgres),
        "redis": (("redis-server", str(layout.var / "redis" / "redis.conf")), layout.var / "redis"),
        "agent": ((*python, "radius.agent"), CHECKOUT),
        "api": ((*python, "api"), CHECKOUT),
        "public": ((*python, "api.public"), CHECKOUT),
        "enrolment": ((*python, "api.enrolment"), CHECKOUT),
        "mailbox": ((*python, "worker.mailbox"), CHECKOUT),
        "worker": ((*python, "worker", f"--processes={WORKER_PROCESSES}", f"--schedule={schedule}"), CHECKOUT),
    }
