"""The process of the verifier, as the agent manages it."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from nac.cellformat.replica.store import ReplicaWriter
from nac.kit.radius_packet import NAS_IDENTIFIER, USER_NAME, encode_attribute, make_access_request
from nac.kit.secrets import MasterKeyFile
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd.generation import verifier_secret
from radius.agent.radiusd.verifier_process import VerifierProcess
from radius.verifier.agent_messages import SourceTrouble, VerifierReport
from tests.polling import until
from tests.verifier.verifier_server import kept_verifier


@pytest.fixture
def paths(tmp_path):
    paths = CellPaths(tmp_path)
    MasterKeyFile.create(paths.key)
    with ReplicaWriter(paths.replica, fresh=True) as writer, writer.begin() as batch:
        batch.set_meta("complete", "1")
    return paths


@pytest.fixture
def port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def codes(alarms):
    return {alarm.code for alarm in alarms.standing()}


def has_ended(pid):
    """Whether a child process of the test has ended. No other code waits for it."""
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def is_running(pid):
    return pid and os.path.exists(f"/proc/{pid}")


def test_verifier_is_restarted_and_ends_with_the_agent(paths, port):
    alarms = Alarms()
    with kept_verifier(paths, port, alarms) as process:
        until(lambda: is_running(process.pid), "the verifier runs")
        first = process.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: process.pid != first and is_running(process.pid), "another verifier runs")
        assert process.counters["restarts"] == 1
        until(lambda: codes(alarms) == set(), "the end of the alarms")
        last = process.pid
    assert not is_running(last)


# An agent that only manages a verifier.
_AGENT = """
import sys, threading
from pathlib import Path
from radius.agent.alarms import Alarms
from radius.agent.radiusd.generation import verifier_secret
from radius.agent.paths import CellPaths
from radius.agent.radiusd.verifier_process import VerifierProcess
VerifierProcess(int(sys.argv[1]), CellPaths(Path(sys.argv[2])), Alarms()).run(threading.Event())
"""


class VerifierRequests:
    """Requests as radiusd sends them: from alternating ports, each request once."""

    def __init__(self, paths, port):
        self._secret = verifier_secret(paths).encode()
        self._port = port
        self._asked = []

    def send(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        attributes = encode_attribute(USER_NAME, b"anna") + encode_attribute(NAS_IDENTIFIER, "slot_0")
        sock.sendto(make_access_request(1, os.urandom(16), attributes, self._secret, b"x"), ("127.0.0.1", self._port))
        self._asked.append(sock)

    def unanswered(self):
        """The number of requests that get no response within 5 s in total."""
        missing, end = 0, time.monotonic() + 5
        for sock in self._asked:
            with sock:
                sock.settimeout(max(0.01, end - time.monotonic()))
                try:
                    sock.recv(4096)
                except TimeoutError:
                    missing += 1
        return missing


def test_verifier_outlives_a_killed_agent_until_replaced(paths, port):
    agent = subprocess.Popen([sys.executable, "-c", _AGENT, str(port), str(paths.root)])
    until(paths.verifier_pid.exists, "the verifier answers")
    orphan = int(paths.verifier_pid.read_text())
    questions = VerifierRequests(paths, port)
    questions.send()
    agent.kill()
    agent.wait()
    for _ in range(20):
        questions.send()
        time.sleep(0.05)
    assert is_running(orphan)
    with kept_verifier(paths, port, Alarms()) as process:

        def taken_over():
            questions.send()
            return not is_running(orphan)

        until(taken_over, "the end of the verifier that was left")
        assert paths.verifier_pid.read_text() == str(process.pid)
        for _ in range(20):
            questions.send()
        assert questions.unanswered() == 0


def test_verifier_outlives_a_leaving_agent_until_replaced(paths, port):
    with kept_verifier(paths, port, Alarms(), is_left=lambda: True) as process:
        until(lambda: paths.verifier_pid.exists(), "the verifier answers")
        left = process.pid
    assert is_running(left)
    questions = VerifierRequests(paths, port)
    questions.send()
    assert questions.unanswered() == 0
    with kept_verifier(paths, port, Alarms()):
        until(lambda: has_ended(left), "the end of the verifier that was left")


def test_port_in_use_is_reported_and_used_once_free(paths, port):
    alarms = Alarms()
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind(("127.0.0.1", port))
    with holder, kept_verifier(paths, port, alarms) as process:
        until(lambda: codes(alarms) == {"verifier"}, "an alarm")
        assert process.pid == 0
        holder.close()
        until(lambda: is_running(process.pid) and codes(alarms) == set(), "the verifier runs, and nothing is wrong")


def test_failing_source_is_an_alarm_until_it_recovers(paths, port):
    alarms = Alarms()
    process = VerifierProcess(port, paths, alarms)
    process._handle_report(
        VerifierReport({"accepts": 2}, {"1": SourceTrouble(7, "Tenant alpha: identity source corp fails.")})
    )
    assert [(alarm.code, alarm.tenant) for alarm in alarms.standing()] == [("identity-source-1", 7)]
    assert process.counters["accepts"] == 2
    process._handle_report(VerifierReport({"accepts": 3}, {}))
    assert codes(alarms) == set()


def test_environment_has_no_database_address(paths, port, monkeypatch):
    monkeypatch.setenv("ADMIT_DATABASE_CELL_URL", "postgresql://somewhere/admit")
    monkeypatch.setenv("ADMIT_MASTER_KEY_FILE", "/somewhere/master.key")
    with kept_verifier(paths, port, Alarms()) as process:
        until(lambda: is_running(process.pid), "the verifier runs")
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            environment = file.read()
    assert b"DATABASE" not in environment
    assert b"MASTER_KEY" not in environment


def test_endless_report_counts_as_an_exited_verifier(paths, port, monkeypatch, tmp_path):
    alarms = Alarms()
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\nprintf \'{"counters": {"acc\'\n')
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with kept_verifier(paths, port, alarms) as process:
        until(lambda: process.counters["restarts"] >= 1, "a restart")
        monkeypatch.undo()
        until(lambda: is_running(process.pid) and codes(alarms) == set(), "the verifier runs, and nothing is wrong")
