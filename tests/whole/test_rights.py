"""Access rights: an attacker in each process reaches exactly the resources in the table.

The test examines the running processes, so a new process without a row fails. A file of an unknown kind fails too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli import procfs
from cli.account import is_root, require_account
from cli.files import chown_tree
from cli.layout import CHECKOUT
from cli.rights import OPERATOR, RIGHTS
from tests.whole.instance import Instance

pytestmark = pytest.mark.skipif(
    not is_root(), reason="as a plain user all processes have one account: docs/internals/processes.md"
)

# Files that every user can read.
PUBLIC = {"", "enrolment certificates"}
# Files below var/.
KINDS = {
    r"(layout\.json|lock)?": "",
    r"(keys|cells|run)": "",
    r"keys/enrolment(/.*\.pem)?": "enrolment certificates",
    r"keys/enrolment/.*\.key": "enrolment keys",
    r"keys/master\.key": "master key",
    r"keys/operator\.key": "operator key",
    r"(keys/passwords\.seed|admit\.env|supervisor(/.*)?|log(/.*)?|run/supervisor\S*)": "operator's",
    r"run/(postgres|redis)(/.*)?": "sockets",
    r"postgres(/.*)?": "data",
    r"redis(/.*)?": "queue",
    r"(cells/.*|sessions(/.*)?)": "cell",
    r"exports(/.*)?": "exports",
    r"mail(/.*)?": "mail",
    r"worker(/.*)?": "schedule",
}


ROLES = {role for rights in (OPERATOR, *RIGHTS.values()) for role in rights.databases.values()}


@dataclass(frozen=True)
class AllowedAccess:
    """The resources that a process may reach by kind, and the processes that it may reach by name."""

    roles: set[str] = field(default_factory=set)
    queue_users: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    looks_into: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Identity:
    name: str
    # Real and effective user, real and effective group, supplementary groups.
    ids: tuple[str, ...]


# A stranger: another user of the machine.
STRANGER = Identity("stranger", ("65534", "65534", "65534", "65534", ""))

TABLE = {
    # Only root may use the superuser's role. A process that owns the data does not need the role.
    "postgres": AllowedAccess(reads={"data", "sockets"}, writes={"data", "sockets"}),
    # The file contains hashes of passwords and queued messages.
    "redis": AllowedAccess(reads={"queue"}, writes={"queue", "sockets"}),
    "agent": AllowedAccess(
        roles={"admit_cell"},
        queue_users={"agent"},
        reads={"cell", "master key"},
        writes={"cell", "sockets"},
        looks_into={"radiusd", "verifier"},
    ),
    "radiusd": AllowedAccess(reads={"cell"}, writes={"cell", "sockets"}, looks_into={"verifier"}),
    "verifier": AllowedAccess(reads={"cell"}, writes={"cell", "sockets"}, looks_into={"radiusd"}),
    "api": AllowedAccess(
        roles={"admit_app"}, queue_users={"api"}, reads={"master key", "operator key", "exports"}, writes={"sockets"}
    ),
    "public": AllowedAccess(roles={"admit_public"}, queue_users={"public"}, reads={"master key"}, writes={"sockets"}),
    "enrolment": AllowedAccess(
        roles={"admit_public"},
        queue_users={"enrolment"},
        reads={"master key", "enrolment keys"},
        writes={"sockets", "enrolment keys", "enrolment certificates"},
    ),
    "mailbox": AllowedAccess(reads={"mail"}, writes={"mail"}),
    "worker": AllowedAccess(
        roles={"admit_app", "admit_worker"},
        queue_users={"worker"},
        reads={"master key", "exports", "schedule"},
        writes={"exports", "schedule", "sockets"},
    ),
    STRANGER.name: AllowedAccess(),
}


@pytest.fixture(scope="module")
def healthy_instance(started_instance: Instance) -> Instance:
    started_instance.ensure_well()
    return started_instance


@pytest.fixture(scope="module")
def running(healthy_instance: Instance) -> dict[int, Identity]:
    """Every process by its id, except the supervisor, which is root."""
    supervisor = healthy_instance.pid("supervisord")
    found = {each.pid: identity_of(each) for each in healthy_instance.processes() if each.pid != supervisor}
    return {pid: identity for pid, identity in found.items() if identity}


@pytest.fixture(scope="module")
def reachable_resources(healthy_instance: Instance, running: dict[int, Identity]) -> dict[str, AllowedAccess]:
    """The reachable resources, by name of the process."""
    one_of_each = {identity.name: pid for pid, identity in running.items()} | {STRANGER.name: 0}
    with instance_with_files(healthy_instance), ThreadPoolExecutor(4) as threads:
        tried = threads.map(lambda pid: take_over(healthy_instance, pid, running), one_of_each.values())
        return dict(zip(one_of_each, tried, strict=True))


def identity_of(process: procfs.Process) -> Identity | None:
    """The identity of a process, None if it has ended."""
    place = procfs.PROC / str(process.pid)
    try:
        lines = (place / "status").read_text().splitlines()
        words = (place / "cmdline").read_bytes().split(b"\0")
        environment = dict(each.partition(b"=")[::2] for each in (place / "environ").read_bytes().split(b"\0"))
    except OSError:
        return None
    told = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    ids = (*told["Uid"][:2], *told["Gid"][:2], ",".join(told["Groups"]))
    if process.command == "postgres":
        return Identity("postgres", ids)
    if process.command == "freeradius":
        return Identity("radiusd", ids)
    if b"radius.verifier" in words:
        return Identity("verifier", ids)
    return Identity(environment[b"SUPERVISOR_PROCESS_NAME"].decode(), ids)


@contextmanager
def instance_with_files(instance: Instance) -> Iterator[None]:
    """An instance with a file in each folder that may be empty, written as its process would."""
    files = {instance.settings.export_dir / "probe": 0o640, instance.settings.mailbox_dir / "probe": 0o600}
    for file, mode in files.items():
        file.write_text("")
        owner = file.parent.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
        file.chmod(mode)
    try:
        yield
    finally:
        for file in files:
            file.unlink()


def take_over(instance: Instance, pid: int, running: dict[int, Identity]) -> AllowedAccess:
    """Run the attacker in this process. `pid` 0 means a stranger."""
    taken = running.get(pid, STRANGER)
    *ids, groups = taken.ids
    identity = [f"--{name}={number}" for name, number in zip(("ruid", "euid", "rgid", "egid"), ids, strict=True)]
    identity += [f"--groups={groups}"] if groups else ["--clear-groups"]
    orders = {
        "postgres": str(instance.layout.postgres_run),
        "redis": str(instance.layout.redis_socket),
        "roles": ["postgres", *sorted(ROLES)],
        "queue_users": ["default", "operator", *RIGHTS],
        "environment": (procfs.PROC / str(pid) / "environ").read_bytes().decode(errors="replace") if pid else "",
        # The processes of this name are the attacker itself.
        "pids": [str(each) for each, other in running.items() if other.name != taken.name],
        "paths": paths_of(instance),
    }
    done = subprocess.run(
        ["setpriv", *identity, "--", sys.executable, "-P", CHECKOUT / "tests" / "whole" / "intruder.py"],
        env={},
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return AllowedAccess(
        roles=set(told["roles"]),
        queue_users=set(told["queue_users"]),
        reads={kind_of(instance, path) for path in told["reads"]} - PUBLIC,
        writes={kind_of(instance, path) for path in told["writes"]},
        looks_into={running[int(each)].name for each in told["looks_into"]},
    )


def paths_of(instance: Instance) -> list[str]:
    """Every path below var/, as root reads them, and the TLS sessions of the cell."""
    return [
        os.path.join(folder, name)
        for root in (instance.var, instance.cell.sessions)
        for folder, _, names in os.walk(root)
        for name in (*names, ".")
    ]


def kind_of(instance: Instance, path: str) -> str:
    place = Path(path)
    inside = place.relative_to(instance.var) if place.is_relative_to(instance.var) else Path("sessions")
    text = "" if str(inside) == "." else str(inside)
    kinds = [kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, text)]
    assert len(kinds) == 1, f"{text} is of the kinds {kinds}: give it one"
    return kinds[0]


def test_every_running_process_has_a_row(running: dict[int, Identity]):
    assert {identity.name for identity in running.values()} == set(TABLE) - {STRANGER.name}
    # Processes of one name have equal rights.
    assert len(set(running.values())) == len(TABLE) - 1


def test_compromised_process_reaches_only_its_own_resources(reachable_resources: dict[str, AllowedAccess]):
    assert reachable_resources == TABLE


def test_every_file_is_of_a_known_kind(healthy_instance: Instance):
    assert {kind_of(healthy_instance, path) for path in paths_of(healthy_instance)} == set(KINDS.values())


def test_environment_holds_no_password_of_another(healthy_instance: Instance, running: dict[int, Identity]):
    for pid, identity in running.items():
        environment = (procfs.PROC / str(pid) / "environ").read_bytes()
        urls = set(re.findall(rb"(?:postgresql|unix)://([a-z_-]+):", environment))
        rights = RIGHTS.get(identity.name)
        allowed = {*rights.databases.values(), identity.name} if rights and identity.name != "postgres" else set()
        assert urls <= {each.encode() for each in allowed}, identity.name


def test_single_user_installation_is_migrated(healthy_instance: Instance):
    """Earlier versions used one system user, files next to the master key, and no passwords of roles."""
    for role in ROLES:
        healthy_instance.query(f"ALTER ROLE {role} PASSWORD NULL")
    assert healthy_instance.admit("down").returncode == 0
    one = require_account("postgres")
    for folder, folders, files in os.walk(healthy_instance.var):
        for name in {*folders, *files} - {"admit.env", "layout.json", "lock", "passwords.seed"}:
            os.chown(os.path.join(folder, name), one.uid, one.gid, follow_symlinks=False)
    chown_tree(healthy_instance.cell.sessions, one)
    keys = healthy_instance.layout.keys
    for path in (keys / "enrolment").iterdir():
        path.rename(keys / path.name)
    shutil.rmtree(keys / "enrolment")
    (keys / "master.key").chmod(0o600)
    places = {"run": str(healthy_instance.layout.run), "postgres": str(healthy_instance.layout.postgres)}
    arrangement = json.dumps(places | {"database_account": one.name, "account": one.name})
    (healthy_instance.var / "layout.json").write_text(arrangement)
    healthy_instance.up()
    assert healthy_instance.complaints() == {}
    left = {
        kind_of(healthy_instance, path)
        for path in paths_of(healthy_instance)
        if os.lstat(path).st_uid == one.uid and not os.path.islink(path)
    }
    assert left == {"data", "sockets"}
    authority = keys / "enrolment" / "enrolment-ca.pem"
    assert authority.stat().st_mode & 0o777 == 0o644
