"""Refusals of the agent to start, under a supervisor or in a container. One sentence names each missing part."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from cli.layout import CHECKOUT
from nac.kit.secrets import MasterKeyFile
from radius.agent.__main__ import main
from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from tests.forked_processes import run_forked
from tests.ports import free_row
from tests.startup_refusal import assert_one_sentence, occupied_port

pytestmark = pytest.mark.faults

NEWER = "9999_from_the_future"


@pytest.fixture
def run_agent(database, tmp_path):
    """Run the agent on the tests' database, in its own cell directory, until it exits."""
    cell = tmp_path / "cell"
    key = tmp_path / "master.key"
    MasterKeyFile.create(key)
    first_port = free_row(udp=6)

    def run(*, radiusd: Path | None = None, first_port: int = first_port) -> subprocess.CompletedProcess[str]:
        settings = {
            "ADMIT_VAR_DIR": str(tmp_path),
            "ADMIT_CELL_DIR": str(cell),
            "ADMIT_CELL_SLOTS": "2",
            "ADMIT_CELL_FIRST_PORT": str(first_port),
            "ADMIT_DATABASE_CELL_URL": database.cell_url,
            "ADMIT_MASTER_KEY_FILE": str(key),
        }

        def agent() -> int:
            # Only this variable contains the agent's radiusd.
            process.RADIUSD_PROGRAM = str(radiusd or process.RADIUSD_PROGRAM)
            return main()

        return run_forked(agent, {"PATH": os.environ["PATH"], **settings})

    yield run
    # In memory, outside the directory of the test.
    shutil.rmtree(CellPaths(cell).sessions, ignore_errors=True)
    assert not (cell / "radiusd.json").exists()


def test_agent_rejects_a_port_in_use(run_agent):
    """Another process uses a port of the cell. The agent does not start radiusd, which would exit for all tenants."""
    port = free_row(udp=6)
    with occupied_port(socket.SOCK_DGRAM, port + 1):
        done = run_agent(first_port=port)
    assert_one_sentence(done, f"port {port + 1} ", "is in use", "ADMIT_CELL_FIRST_PORT")


@pytest.mark.parametrize(
    "version", ["3.2.1", *(pytest.param(each, marks=pytest.mark.long) for each in ("3.2.9", "4.0.0"))]
)
def test_agent_rejects_another_freeradius_version(run_agent, tmp_path, version):
    """`radiusd` may report another version than dpkg."""
    fake = tmp_path / "freeradius"
    fake.write_text(f'#!/bin/sh\necho "radiusd: FreeRADIUS Version {version}, for host x86_64-pc-linux-gnu"\n')
    fake.chmod(0o755)
    assert_one_sentence(run_agent(radiusd=fake), f"FreeRADIUS {version}", "3.2.7")


@pytest.mark.long
def test_agent_rejects_a_machine_without_freeradius(run_agent, tmp_path):
    assert_one_sentence(run_agent(radiusd=tmp_path / "none"), "Install freeradius 3.2.7")


@pytest.mark.parametrize(("revision", "what"), [(NEWER, "newer"), (None, "migrates the database")])
def test_agent_rejects_a_mismatched_database(run_agent, database, revision, what):
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        ((fitting,),) = connection.execute("DELETE FROM alembic_version RETURNING version_num").fetchall()
        try:
            if revision:
                connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
            assert_one_sentence(run_agent(), what)
        finally:
            connection.execute("DELETE FROM alembic_version")
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (fitting,))


def test_all_invalid_settings_are_named_at_once():
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
