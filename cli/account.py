"""System users (accounts) of the processes. `cli.layout` describes which processes have their own system user."""

import grp
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from cli.errors import Refused
from cli.rights import RIGHTS

# Checks the access that every process needs: imports from the checkout and the Python environment, and access to var/.
_PROBE = "import os, sys, msgspec, nac.kit.settings; sys.exit(not os.access(sys.argv[1], os.R_OK | os.X_OK))"


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
        """Return the arguments with which `subprocess` runs a program under this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


ROOT = Account("root", 0, 0)


def is_root() -> bool:
    return os.geteuid() == 0


def find_account(name: str) -> Account:
    entry = pwd.getpwnam(name)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def find_group(name: str) -> int | None:
    """Return the id of a group; None if the group does not exist."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def require_group(name: str) -> int:
    group = find_group(name)
    if group is None:
        _create(["groupadd", "--system", name], name)
        group = grp.getgrnam(name).gr_gid
    return group


def require_account(process: str) -> Account:
    """Return the system user of a process. Creates the user and the user's groups if missing."""
    rights = RIGHTS[process]
    groups = {require_group(name): name for name in rights.groups}
    try:
        account = find_account(rights.account)
    except KeyError:
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        options += ["--groups", ",".join(rights.groups)] if rights.groups else []
        _create(["useradd", *options, "--shell", "/usr/sbin/nologin", rights.account], rights.account)
        return find_account(rights.account)
    missing = groups.keys() - set(os.getgrouplist(account.name, account.gid))
    if missing:
        _create(
            ["usermod", "--append", "--groups", ",".join(groups[gid] for gid in missing), account.name], account.name
        )
    return account


def _create(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"Cannot create the system user or group {name}: {done.stderr.strip()}")


def may_run(account: Account, var: Path) -> bool:
    """Whether processes of `account` can load the code and enter `var`.

    For example, the result is False if the code or `var` is below /root.
    """
    command = [sys.executable, "-P", "-c", _PROBE, str(var)]
    try:
        probe = subprocess.run(command, cwd="/", env={}, capture_output=True, check=False, **account.run_as())
    except PermissionError:
        # The account cannot even reach the interpreter.
        return False
    return probe.returncode == 0
