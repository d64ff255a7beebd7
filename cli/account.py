"""Which account the processes run under.

Root hands them to a system user of their own, and PostgreSQL refuses root anyway. A caller who is not root runs them as
himself.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from cli.fail import Refused

SERVICE_USER = "admit"

# Imports from checkout and environment, and enters var/: what every process of ours must be able to do.
_PROBE = "import os, sys, msgspec, nac.settings; sys.exit(not os.access(sys.argv[1], os.R_OK | os.X_OK))"


class RunAs(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int

    def run_as(self) -> RunAs:
        """Arguments for subprocess."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def is_root() -> bool:
    return os.geteuid() == 0


def find_account(name: str) -> Account:
    entry = pwd.getpwnam(name)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def require_service_account() -> Account:
    """The system user, made where it is missing."""
    try:
        return find_account(SERVICE_USER)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        made = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", SERVICE_USER], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise Refused(f"The system user {SERVICE_USER} cannot be made: {made.stderr.strip()}") from None
        return find_account(SERVICE_USER)


def may_run(account: Account, var: Path) -> bool:
    """Whether processes of `account` can load the code and enter `var`: not so below a folder such as /root."""
    command = [sys.executable, "-P", "-c", _PROBE, str(var)]
    try:
        probe = subprocess.run(command, cwd="/", env={}, capture_output=True, check=False, **account.run_as())
    except PermissionError:
        # Not even the interpreter can be reached.
        return False
    return probe.returncode == 0
