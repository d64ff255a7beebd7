"""What cannot serve does not start: one clear sentence, exit status not 0, for `./admit up` and for the agent alone."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from cli.layout import CHECKOUT
from nac.secrets import MasterKeyFile
from radius.agent.paths import CellPaths
from tests.faults.instance import Instance
from tests.faults.wire import Wire
from tests.radius.standalone import free_ports
from tests.waiting import until

pytestmark = pytest.mark.faults

NEWER = "9999_from_the_future"


@pytest.fixture
def unstarted():
    """An instance that was never up."""
    instance = Instance()
    yield instance
    instance.close()


def assert_one_sentence(done, *parts):
    """Nothing but the refusal on standard error: no trace, no second error, no more than two sentences."""
    assert done.returncode != 0, done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert all(part in lines[0] for part in parts), lines[0]


def up(instance, **options):
    return instance.admit(
        *("up", "--no-demo", "--no-install"),
        *("--first-port", str(instance.first_port), "--api-port", str(instance.api_port)),
        **options,
    )


@contextmanager
def bound(kind, port):
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        yield


@pytest.mark.parametrize(
    ("kind", "offset", "option"), [(socket.SOCK_DGRAM, 5, "--first-port"), (socket.SOCK_STREAM, 0, "--api-port")]
)
def test_up_refuses_a_taken_port_and_starts_nothing(unstarted, kind, offset, option):
    """One of the cell's ports, or the API's, belongs to somebody else."""
    port = unstarted.first_port + offset
    with bound(kind, port):
        done = up(unstarted)
    assert_one_sentence(done, f"port {port} ", "is taken", option)
    assert unstarted.processes() == []


@pytest.mark.parametrize(("version", "why"), [("3.2.1", "BlastRADIUS"), ("3.2.9", "drops"), ("4.0.0", "3.2.7")])
def test_up_refuses_another_freeradius_and_starts_nothing(unstarted, tmp_path, version, why):
    """dpkg knows another FreeRADIUS: one that is open to attacks, one that does not work, one that nobody tested."""
    real = shutil.which("dpkg-query")
    fake = tmp_path / "dpkg-query"
    fake.write_text(f'#!/bin/sh\n{real} "$@" | sed -E "s/^(freeradius[^ ]* [^ ]* ).*/\\\\1{version}+dfsg-1/"\n')
    fake.chmod(0o755)
    done = up(unstarted, path=str(tmp_path))
    assert_one_sentence(done, "reeradius" if version == "3.2.1" else version)
    if version != "3.2.1":
        assert why in done.stderr
    assert unstarted.processes() == []


def test_up_refuses_a_newer_database_until_it_fits_again(instance, tenants):
    """The database was migrated by a version to come. Those who run already serve on; `up` says it cannot, as does the
    agent where it is started anew; with the schema in place again everything is well."""
    ((fitting,),) = instance.query("SELECT version_num FROM alembic_version")
    instance.query("UPDATE alembic_version SET version_num = %s", NEWER)
    try:
        assert_one_sentence(up(instance), NEWER, "newer")
    finally:
        instance.query("UPDATE alembic_version SET version_num = %s", fitting)
    instance.up()
    with Wire(tenants[0]) as wire:
        until(wire.is_admitted, "a verdict")


# The agent alone, as a supervisor or a container starts it.

# The one place where the agent's radiusd is named.
_WITH_OTHER_RADIUSD = "import radius.agent.process as p; p.RADIUSD = {path!r}; "
_MAIN = "from radius.agent.__main__ import main; raise SystemExit(main())"


@pytest.fixture
def run_agent(database, tmp_path):
    """`python -m radius.agent` on the tests' database, in a cell directory of its own, until it ends by itself."""
    cell = tmp_path / "cell"
    key = tmp_path / "master.key"
    MasterKeyFile.create(key)
    (first_port,) = free_ports(1)

    def run(*, radiusd: Path | None = None, first_port: int = first_port) -> subprocess.CompletedProcess[str]:
        settings = {
            "ADMIT_VAR_DIR": str(tmp_path),
            "ADMIT_CELL_DIR": str(cell),
            "ADMIT_CELL_SLOTS": "2",
            "ADMIT_CELL_FIRST_PORT": str(first_port),
            "ADMIT_DATABASE_CELL_URL": database.cell_url,
            "ADMIT_MASTER_KEY_FILE": str(key),
        }
        code = (_WITH_OTHER_RADIUSD.format(path=str(radiusd)) if radiusd else "") + _MAIN
        return subprocess.run(
            [sys.executable, "-P", "-c", code],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    yield run
    # Outside of the test's own directory: in memory.
    shutil.rmtree(CellPaths(cell).sessions, ignore_errors=True)
    assert not (cell / "radiusd.json").exists()


def test_agent_refuses_a_taken_port(run_agent):
    """Another process holds a port of the cell: radiusd is not even started, for it would end for all tenants."""
    while True:
        (port,) = free_ports(1)
        if port < 65_000:
            break
    with bound(socket.SOCK_DGRAM, port + 1):
        done = run_agent(first_port=port)
    assert_one_sentence(done, f"port {port + 1} ", "is taken", "--first-port")


@pytest.mark.parametrize("version", ["3.2.1", "3.2.9", "4.0.0"])
def test_agent_refuses_another_freeradius(run_agent, tmp_path, version):
    """radiusd itself says another version than dpkg may have."""
    fake = tmp_path / "freeradius"
    fake.write_text(f'#!/bin/sh\necho "radiusd: FreeRADIUS Version {version}, for host x86_64-pc-linux-gnu"\n')
    fake.chmod(0o755)
    assert_one_sentence(run_agent(radiusd=fake), f"FreeRADIUS {version}", "3.2.7")


def test_agent_refuses_a_machine_without_freeradius(run_agent, tmp_path):
    """No program of that name."""
    assert_one_sentence(run_agent(radiusd=tmp_path / "none"), "install freeradius 3.2.7")


@pytest.mark.parametrize(("revision", "what"), [(NEWER, "newer"), (None, "./admit up")])
def test_agent_refuses_a_database_that_does_not_fit(run_agent, database, revision, what):
    """The database was migrated by a version to come, or by none."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        ((fitting,),) = connection.execute("DELETE FROM alembic_version RETURNING version_num").fetchall()
        try:
            if revision:
                connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
            assert_one_sentence(run_agent(), what)
        finally:
            connection.execute("DELETE FROM alembic_version")
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (fitting,))


def test_settings_that_are_wrong_are_all_named_at_once():
    """`python -m radius.agent` without what it needs and with values that cannot be: one line, exit status 1."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "radius.agent"],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "ADMIT_VAR_DIR": "here", "ADMIT_CELL_SLOTS": "many"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert_one_sentence(done, "ADMIT_VAR_DIR", "ADMIT_CELL_SLOTS", "ADMIT_DATABASE_CELL_URL")
