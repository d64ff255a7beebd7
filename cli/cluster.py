"""The private PostgreSQL cluster of this checkout: creation, configuration and health."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from cli.errors import Refused
from cli.files import make_folder
from cli.layout import Layout
from nac.kit.private_files import write_private
from radius.agent.radiusd.memory import available_bytes

BINARIES = Path("/usr/lib/postgresql/15/bin")
SUPERUSER = "postgres"
DATABASE = "admit"

# No TCP. The socket's folder has the group of the permitted accounts.
_CONFIGURATION = """\
listen_addresses = ''
unix_socket_directories = '{run}'
unix_socket_permissions = 0770
password_encryption = scram-sha-256
hba_file = '{data}/admit_hba.conf'
ident_file = '{data}/admit_ident.conf'
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


# Every role except the superuser needs a password. Only the system user that runs `up` can log in as superuser.
_ACCESS = f"""\
local all {SUPERUSER} peer map=operator
local all all scram-sha-256
"""


def database_url(layout: Layout, role: str, password: str) -> str:
    return f"postgresql://{role}:{password}@/{DATABASE}?host={layout.postgres_run}"


def superuser_url(layout: Layout, database: str = DATABASE) -> str:
    """Return the superuser's URL. The URL works for the system user that runs `up`, by peer authentication."""
    return f"postgresql://{SUPERUSER}@/{database}?host={layout.postgres_run}"


def exists(layout: Layout) -> bool:
    return (layout.postgres / "PG_VERSION").exists()


def create(layout: Layout) -> None:
    """Create the cluster in a temporary folder, so that an interrupted initdb leaves no partial cluster."""
    identity = layout.database_account.run_as() if layout.database_account else {}
    unfinished = layout.postgres.with_name("postgres.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    make_folder(unfinished, owner=layout.database_account, mode=0o700)
    command = [
        str(BINARIES / "initdb"),
        f"--pgdata={unfinished}",
        f"--username={SUPERUSER}",
        "--auth-local=peer",
        "--auth-host=reject",
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
    """Write the settings of the cluster. PostgreSQL reads the settings at the next start."""
    # Imported here because it loads the database libraries, which `status` does not need.
    from nac.kit.db.server_settings import compute_server_settings

    owner = layout.database_account
    main = layout.postgres / "postgresql.conf"
    include = "include = 'admit.conf'\n"
    text = main.read_text(encoding="utf-8")
    if include not in text:
        write_private(main, text + include, owner=owner)
    write_private(layout.postgres / "admit_hba.conf", _ACCESS, owner=owner)
    operator = f'operator "{pwd.getpwuid(os.geteuid()).pw_name}" {SUPERUSER}\n'
    write_private(layout.postgres / "admit_ident.conf", operator, owner=owner)
    sized = "\n".join(f"{name} = {value}" for name, value in compute_server_settings(available_bytes()).items())
    settings = _CONFIGURATION.format(run=layout.postgres_run, data=layout.postgres, tuning=sized)
    write_private(layout.postgres / "admit.conf", settings, owner=owner)


def connection_problem(layout: Layout) -> str:
    """Return why the cluster accepts no connections; "" if the cluster accepts connections."""
    command = [str(BINARIES / "pg_isready"), "--quiet", f"--host={layout.postgres_run}", "--timeout=3"]
    # An existing role, because PostgreSQL logs attempts with unknown roles.
    completed = subprocess.run([*command, f"--username={SUPERUSER}", "--dbname=postgres"], check=False, cwd="/")
    # pg_isready(1): 1 is "rejecting connections", 2 "no response".
    return ("", "is starting or recovering", "does not respond")[min(completed.returncode, 2)]
