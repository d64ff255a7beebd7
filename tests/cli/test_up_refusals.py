"""`./admit up` where it cannot serve: one clear sentence, exit status not 0, and nothing is started."""

import shutil
import socket

import pytest

from tests.faults.instance import Instance
from tests.refusing import assert_one_sentence, bound

pytestmark = pytest.mark.faults


@pytest.fixture
def unstarted():
    """An instance that was never up."""
    instance = Instance()
    yield instance
    instance.close()


@pytest.mark.parametrize(
    ("kind", "offset", "option"), [(socket.SOCK_DGRAM, 5, "--first-port"), (socket.SOCK_STREAM, 0, "--api-port")]
)
def test_up_refuses_a_taken_port_and_starts_nothing(unstarted, kind, offset, option):
    """One of the cell's ports, or the API's, belongs to somebody else."""
    port = unstarted.first_port + offset
    with bound(kind, port):
        done = unstarted.try_up()
    assert_one_sentence(done, f"port {port} ", "is taken", option)
    assert unstarted.processes() == []


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("3.2.1", "BlastRADIUS"),
        pytest.param("3.2.9", "drops", marks=pytest.mark.long),
        pytest.param("4.0.0", "3.2.7", marks=pytest.mark.long),
    ],
)
def test_up_refuses_another_freeradius_and_starts_nothing(unstarted, tmp_path, version, why):
    """dpkg knows another FreeRADIUS: one that is open to attacks, one that does not work, one that nobody tested."""
    real = shutil.which("dpkg-query")
    fake = tmp_path / "dpkg-query"
    fake.write_text(f'#!/bin/sh\n{real} "$@" | sed -E "s/^(freeradius[^ ]* [^ ]* ).*/\\\\1{version}+dfsg-1/"\n')
    fake.chmod(0o755)
    done = unstarted.try_up(path=str(tmp_path))
    assert_one_sentence(done, "reeradius" if version == "3.2.1" else version)
    if version != "3.2.1":
        assert why in done.stderr
    assert unstarted.processes() == []
