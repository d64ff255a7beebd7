"""The checkout's private PostgreSQL cluster: made, configured, asked how it is."""

import shutil
import subprocess
from pathlib import Path

from cli.fail import Refused
from cli.layout import Layout
from nac.db.tuning import tuning
from nac.files import write_private
from radius.agent.memory import available_bytes

BINARIES = Path("/usr/lib/postgresql/15/bin")
SUPERUSER = "postgres"
DATABASE = "admit"

# No TCP, no password: whoever may enter the socket's folder (0700, the service account's) is trusted with every role.
_CONFIGURATION = """\
listen_addresses = ''
unix_socket_directories = '{run}'
unix_socket_permissions = 0700
hba_file = '{data}/admit_hba.conf'
max_connections = 100
{tuning}
jit = off
synchronous_commit = on
fsync = on
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u '
# A client that vanished in the middle of a transaction must not hold back the change feed or vacuum.
idle_in_transaction_session_timeout = '5min'
"""


def url(layout: Layout, role: str) -> str:
    return f"postgresql://{role}@/{DATABASE}?host={layout.run}"


def exists(layout: Layout) -> bool:
    return (layout.postgres / "PG_VERSION").exists()


def create(layout: Layout) -> None:
    """initdb, beside the final place: an attempt that was cut short leaves nothing that looks like a cluster."""
    identity = layout.database_account.run_as() if layout.database_account else {}
    unfinished = layout.postgres.with_name("postgres.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    command = [
        str(BINARIES / "initdb"),
        f"--pgdata={unfinished}",
        f"--username={SUPERUSER}",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--data-checksums",
    ]
    environment = {"PATH": "/usr/bin:/bin"}
    made = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False, **identity)
    if made.returncode:
        raise Refused(f"initdb failed: {made.stderr.strip()}", place=str(layout.postgres))
    unfinished.rename(layout.postgres)


def configure(layout: Layout) -> None:
    """Write the cluster's settings; they are read at its next start."""
    owner = layout.database_account
    main = layout.postgres / "postgresql.conf"
    include = "include = 'admit.conf'\n"
    text = main.read_text(encoding="utf-8")
    if include not in text:
        write_private(main, text + include, owner=owner)
    write_private(layout.postgres / "admit_hba.conf", "local all all trust\n", owner=owner)
    sized = "\n".join(f"{name} = {value}" for name, value in tuning(available_bytes()).items())
    settings = _CONFIGURATION.format(run=layout.run, data=layout.postgres, tuning=sized)
    write_private(layout.postgres / "admit.conf", settings, owner=owner)


def accepts_connections(layout: Layout) -> str:
    """Empty when it does, else what it says."""
    command = [str(BINARIES / "pg_isready"), "--quiet", f"--host={layout.run}", "--timeout=3"]
    # A role that exists: the attempt is logged otherwise.
    asked = subprocess.run([*command, f"--username={SUPERUSER}", "--dbname=postgres"], check=False, cwd="/")
    # pg_isready(1): 1 is "rejecting connections", 2 "no response".
    return ("", "is starting or recovering", "does not answer")[min(asked.returncode, 2)]
