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


@pytest.mark.long
def test_failed_first_start_leaves_no_partial_layout(unstarted):
    port = unstarted.first_port + 5
    with occupied_port(socket.SOCK_DGRAM, port):
        done = unstarted.try_up()
    assert_one_sentence(done, f"port {port} ", "is taken", "--first-port")
    assert unstarted.processes() == []
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


def test_up_rejects_another_freeradius_and_starts_nothing(unstarted, tmp_path):
    """`dpkg` reports a vulnerable FreeRADIUS. tests/cli/test_install.py covers other versions."""
    real = shutil.which("dpkg-query")
    fake = tmp_path / "dpkg-query"
    fake.write_text(f'#!/bin/sh\n{real} "$@" | sed -E "s/^(freeradius[^ ]* [^ ]* ).*/\\\\13.2.1+dfsg-1/"\n')
    fake.chmod(0o755)
    done = unstarted.try_up(path=str(tmp_path))
    assert_one_sentence(done, "reeradius")
    assert unstarted.processes() == []
