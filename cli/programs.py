"""The processes of an embedded Admit and how each is started."""

import sys

from cli.cluster import BINARIES
from cli.layout import CHECKOUT, Layout
from cli.supervisor import Program
from nac.files import write_private
from nac.settings import Settings

# In the order in which they are started and shown; the others need the stores, and stop before them.
STORES = ("postgres", "redis")
OTHERS = ("agent", "api", "public", "enrolment", "mailbox", "worker")
NAMES = (*STORES, *OTHERS)

# Nothing in Redis may be missed when it is lost, so nothing is written to disk. Its title stays untouched because
# writing it would wipe the environment by which `down` knows the process.
_REDIS = """\
port 0
unixsocket {socket}
unixsocketperm 700
dir {folder}
daemonize no
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
set-proc-title no
"""


def write_redis_configuration(layout: Layout) -> None:
    content = _REDIS.format(socket=layout.redis_socket, folder=layout.var / "redis")
    write_private(layout.var / "redis" / "redis.conf", content, owner=layout.account)


# Feeds may hold one for minutes, and so may another long job: there is one for the rest.
WORKER_PROCESSES = 3


def programs(layout: Layout, settings: Settings) -> list[Program]:
    python = (sys.executable, "-P", "-m")
    schedule = layout.var / "supervisor" / "beat-schedule"
    return [
        # supervisord runs as the service account already, or as root and switches for PostgreSQL.
        Program(
            "postgres",
            (str(BINARIES / "postgres"), "-D", str(layout.postgres)),
            layout.postgres,
            layout.database_account,
            priority=10,
            stop_signal="INT",
            stop_seconds=30,
            starts_with_supervisor=True,
        ),
        Program(
            "redis",
            ("redis-server", str(layout.var / "redis" / "redis.conf")),
            layout.var / "redis",
            layout.account,
            priority=10,
            starts_with_supervisor=True,
        ),
        Program("agent", (*python, "radius.agent"), CHECKOUT, layout.account, priority=30),
        Program(
            "api",
            (*python, "api"),
            CHECKOUT,
            layout.account,
            priority=40,
        ),
        Program("public", (*python, "api.public"), CHECKOUT, layout.account, priority=40),
        Program("enrolment", (*python, "api.enrolment"), CHECKOUT, layout.account, priority=40),
        Program("mailbox", (*python, "worker.mailbox"), CHECKOUT, layout.account, priority=40),
        Program(
            "worker",
            (*python, "worker", f"--processes={WORKER_PROCESSES}", f"--schedule={schedule}"),
            CHECKOUT,
            layout.account,
            priority=40,
        ),
    ]
