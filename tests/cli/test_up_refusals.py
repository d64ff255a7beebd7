"""`./admit up` on an unusable machine: one clear sentence, a non-zero exit status, and nothing is started."""

import os
import shutil
import socket
import subprocess

import pytest

from cli.layout import CHECKOUT
from tests.startup_refusal import assert_one_sentence, occupied_port
from tests.whole.instance import Instance

pytestmark = pytest.mark.faults


@pytest.fixture
def unstarted():
    """An instance that was never started."""
    instance = Instance()
    yield instance
    instance.close()


@pytest.mark.parametrize(
    ("kind", "offset", "option"), [(socket.SOCK_DGRAM, 5, "--first-port"), (socket.SOCK_STREAM, 0, "--api-port")]
)
def test_up_rejects_a_taken_port_and_starts_nothing(unstarted, kind, offset, option):
    """Another program holds one port of the cell or the API."""
    port = unstarted.first_port + offset
    with occupied_port(kind, port):
        done = unstarted.try_up()
    assert_one_sentence(done, f"port {port} ", "is taken", option)
    assert unstarted.processes() == []


@pytest.mark.long
def test_failed_first_start_leaves_no_partial_layout(unstarted):
    with occupied_port(socket.SOCK_DGRAM, unstarted.first_port):
        assert unstarted.try_up().returncode == 1
    for command in (("tenant", "list"), ("logs",), ("demo",)):
        assert unstarted.admit(*command).stderr == "Error: Admit is not running. Start Admit: ./admit up\n"
    assert unstarted.admit("down", "--purge", "--yes").returncode == 0
    assert not unstarted.var.exists()


@pytest.mark.parametrize("name", ["/proc/admit/var", "/dev/null/var"])
def test_uncreatable_folder_is_reported_in_a_sentence(name):
    environment = os.environ | {"ADMIT_VAR_DIR": name}
    command = [CHECKOUT / "admit", "up", "--no-install", "--no-demo"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert_one_sentence(done, f"Error: Cannot create the folder {name}: ")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("3.2.1", "BlastRADIUS"),
        pytest.param("3.2.9", "drops", marks=pytest.mark.long),
        pytest.param("4.0.0", "3.2.7", marks=pytest.mark.long),
    ],
)
def test_up_rejects_another_freeradius_and_starts_nothing(unstarted, tmp_path, version, why):
    """`dpkg` reports a vulnerable, broken or untested FreeRADIUS."""
    real = shutil.which("dpkg-query")
    fake = tmp_path / "dpkg-query"
    fake.write_text(f'#!/bin/sh\n{real} "$@" | sed -E "s/^(freeradius[^ ]* [^ ]* ).*/\\\\1{version}+dfsg-1/"\n')
    fake.chmod(0o755)
    done = unstarted.try_up(path=str(tmp_path))
    assert_one_sentence(done, "reeradius" if version == "3.2.1" else version)
    if version != "3.2.1":
        assert why in done.stderr
    assert unstarted.processes() == []
