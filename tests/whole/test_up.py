"""The complete installation, started and stopped as a user does.

The test that stops it is the last of this folder, because none of these tests is `early`.
"""

import json
import os
import signal
import socket

import pytest

from cli.account import Account, is_root
from cli.demo.tools import RadiusServer, run_radclient
from radius.agent.paths import CellPaths
from tests.polling import until
from tests.startup_refusal import occupied_port
from tests.whole.instance import Instance
from worker.priority import NICENESS


@pytest.fixture
def up(started_instance: Instance) -> Instance:
    started_instance.ensure_well()
    return started_instance


def processes(instance: Instance) -> dict[str, dict[str, object]]:
    return {row["process"]: row for row in json.loads(instance.admit("status", "--json").stdout)["processes"]}


def pids(instance: Instance) -> dict[str, int]:
    """The process ids of the supervised processes that run."""
    return {name: state.pid for name, state in instance.states().items() if state.pid}


def test_every_process_is_healthy_after_a_start(up: Instance):
    rows = processes(up)
    assert list(rows) == ["postgres", "redis", "agent", "api", "public", "enrolment", "mailbox", "worker"]
    assert {row["state"] for row in rows.values()} == {"running"}
    assert {row["complaint"] for row in rows.values()} == {""}


def test_database_work_for_the_worker_has_low_priority(up: Instance):
    def nicenesses() -> set[int]:
        backends = up.query("SELECT pid FROM pg_stat_activity WHERE usename = 'admit_worker'")
        return {os.getpriority(os.PRIO_PROCESS, pid) for (pid,) in backends}

    until(lambda: nicenesses() == {NICENESS}, "the worker's connections give way")


@pytest.mark.long
@pytest.mark.skipif(not is_root(), reason="becomes another account")
def test_other_account_gets_an_error(up: Instance):
    for command in (("status",), ("logs",), ("tenant", "list")):
        done = up.admit(*command, **Account("nobody", 65534, 65534).run_as())
        if "Permission denied" in done.stderr:
            pytest.skip("other users cannot enter this checkout")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: No permission to ")


@pytest.mark.long
def test_nas_secret_is_active_when_the_command_returns(up: Instance):
    assert up.admit("msp", "create", "nases").returncode == 0
    made = up.admit("tenant", "create", "nases", "--msp", "nases", "--policy", "none", "--json")
    assert made.returncode == 0, made.stdout + made.stderr
    tenant = json.loads(made.stdout)
    own = "a-secret-of-its-own-0123"
    switch = ("--address", "127.0.0.1", "--secret", own)
    for command, secret in ((("add", "core-1", *switch), own), (("remove", "core-1"), tenant["radius_secret"])):
        done = up.admit("nas", *command, "-t", "nases")
        assert (done.returncode, done.stderr) == (0, "")
        ports = tenant["listeners"]
        server = RadiusServer("127.0.0.1", ports["auth_port"], ports["acct_port"], secret)
        assert run_radclient(server, "auth", [("User-Name", "nobody"), ("User-Password", "x")]) is not None


@pytest.mark.long
def test_demo_passes_including_the_slow_checks(up: Instance):
    board = json.loads(up.admit("demo", "--json").stdout)
    assert [row for row in board["rows"] if not row["ok"]] == []
    silent = [row for row in board["rows"] if row["reason"] == "conversation-abandoned"]
    assert [(row["tenant"], row["got"]) for row in silent] == [("alpha", "silence"), ("bravo", "silence")]
    assert all(row["advice"].startswith("The device did not respond") for row in silent)
    told = json.loads(up.admit("decisions", "-t", "alpha", "--reason", "conversation-abandoned", "--json").stdout)
    assert [(row["verdict"], row["remedy"]) for row in told] == [("deny", silent[0]["advice"])]


def test_later_starts_keep_the_setting_and_restart_nothing(up: Instance):
    before = pids(up)
    file = up.var / "admit.env"
    assert "ADMIT_DEMO=no\n" in file.read_text()
    again = up.admit("up", "--no-install")
    assert (again.returncode, "tenant alpha" in again.stdout) == (0, False)
    file.write_text(file.read_text().replace("ADMIT_DEMO=no", "ADMIT_DEMO=perhaps"))
    assert "ADMIT_DEMO is 'perhaps'" in up.admit("up", "--no-install").stderr
    assert up.try_up().returncode == 0
    assert pids(up) == before


@pytest.mark.long
def test_up_starts_again_after_redis_was_killed(up: Instance):
    """Without its supervisor, only `./admit up` restarts Redis. A socket and a file of the killed Redis remain."""
    redis = up.pid("redis")
    up.kill("supervisord")
    os.kill(redis, signal.SIGKILL)
    started = up.try_up()
    assert (started.returncode, started.stderr) == (0, "")
    assert up.pid("redis") != redis
    up.wait_until_well()


@pytest.mark.long
def test_modified_demo_does_not_fail_the_start(up: Instance):
    started = up.admit("up", "--no-install", "--demo")
    assert (started.returncode, "checks are as expected" in started.stdout) == (0, True)
    up.admit("tenant", "suspend", "alpha")
    up.admit("down")
    started = up.admit("up", "--no-install")
    assert (started.returncode, started.stderr) == (0, "")
    assert "Admit is running. These checks have unexpected results" in started.stdout
    assert "./admit demo --reset" in started.stdout
    up.admit("tenant", "resume", "alpha")
    # The call restarts every process, because the demo allows trials. The next test expects no trials.
    up.up()


def test_damaged_settings_are_rejected_with_every_error(up: Instance):
    file = up.var / "admit.env"
    good = file.read_text()
    changed = {"ADMIT_JOURNAL_SYNC": "never", "ADMIT_REJECT_DELAY_SECONDS": "soon"}
    file.write_text(good + "".join(f"{name}={value}\n" for name, value in changed.items()))
    try:
        done = up.try_up()
    finally:
        file.write_text(good)
    assert done.returncode == 1
    assert all(name in done.stderr for name in changed)


def test_impossible_setting_leaves_everything_running(up: Instance):
    before = pids(up)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        api = str(holder.getsockname()[1])
        for option, value, words in (
            ("--listen", "192.0.2.1", "does not have the address 192.0.2.1"),
            ("--api-port", api, f"TCP port {api} of 127.0.0.1 is taken"),
        ):
            done = up.admit("up", "--no-install", "--no-demo", option, value)
            assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert pids(up) == before


def test_down_leaves_no_process_and_purge_leaves_no_file(up: Instance):
    assert up.admit("down").returncode == 0
    assert up.processes() == []
    assert up.admit("status").returncode == 1
    with occupied_port(socket.SOCK_DGRAM, up.first_port + 3):
        done = up.try_up()
    assert done.returncode == 1
    assert f"UDP port {up.first_port + 3} of 127.0.0.1 is taken" in done.stderr
    assert up.processes() == []
    sessions = CellPaths(up.var / "cells" / "cell-1").sessions
    places = [up.layout.run, up.layout.postgres]
    assert sessions.exists()
    up.take_disk_away()
    assert up.admit("down", "--purge", "--yes").returncode == 0
    assert not up.var.exists()
    assert not sessions.exists()
    assert not any(place.exists() for place in places)
    assert up.admit("status").returncode == 1
