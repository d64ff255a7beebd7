"""The whole installation, started and stopped as a person does, in a folder and on ports of the test."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import psycopg
import pytest

from cli import envfile, procfs
from cli.account import Account, RunAs, is_root
from cli.demo.tools import Server, radclient
from cli.layout import CHECKOUT
from cli.supervisor import Supervisor
from nac.settings import load_settings
from radius.agent.paths import CellPaths
from tests.faults.instance import complaints, layout_of
from tests.ports import free_row

pytestmark = pytest.mark.early

SLOTS = 4


@dataclass
class Installation:
    var: Path
    first_port: int
    api_port: int

    def run(self, *arguments: str, **identity: Unpack[RunAs]) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")}
        environment |= {"ADMIT_VAR_DIR": str(self.var), "ADMIT_CELL_SLOTS": str(SLOTS)}
        command = [CHECKOUT / "admit", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120, **identity
        )

    def up(self) -> subprocess.CompletedProcess[str]:
        ports = ("--first-port", str(self.first_port), "--api-port", str(self.api_port))
        return self.run("up", "--no-install", "--no-demo", *ports)

    def processes(self) -> dict[str, dict[str, object]]:
        return {row["process"]: row for row in json.loads(self.run("status", "--json").stdout)["processes"]}

    def pids(self) -> dict[str, int]:
        """Of the supervised processes that run."""
        return {name: state.pid for name, state in Supervisor(layout_of(self.var)).states().items() if state.pid}

    def is_well(self) -> bool:
        """As `./admit status` would say, which takes longer to start than to look."""
        if not (self.var / "layout.json").exists():
            return False
        return not complaints(layout_of(self.var), load_settings(envfile.read(self.var / "admit.env")))

    def place(self, name: str) -> Path:
        """`run` or `postgres`: outside var/ where root's checkout is closed to others."""
        return Path(json.loads((self.var / "layout.json").read_text())[name])

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(f"postgresql://admit_owner@/admit?host={self.place('run')}")

    def left_running(self) -> list[procfs.Process]:
        outside = [self.place("postgres")] if (self.var / "layout.json").exists() else []
        return procfs.find_strays(self.var, [self.var, *outside])


def make_installation(var: Path) -> Installation:
    port = free_row(udp=2 * SLOTS + 2, tcp=3)
    return Installation(var, port, port)


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="admit-up-"))
    folder.chmod(0o755)
    made = make_installation(folder / "var")
    yield made
    made.run("down", "--purge", "--yes")
    procfs.end(made.left_running())
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def up(installation: Installation) -> Installation:
    if not installation.is_well():
        done = installation.up()
        assert done.returncode == 0, done.stdout + done.stderr
    return installation


def test_first_start_that_failed_leaves_nothing_half_arranged():
    folder = Path(tempfile.mkdtemp(prefix="admit-up-"))
    folder.chmod(0o755)
    failed = make_installation(folder / "var")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind(("127.0.0.1", failed.first_port))
            done = failed.up()
        assert done.returncode == 1
        assert f"UDP port {failed.first_port} of 127.0.0.1 is taken" in done.stderr
        for command in (("tenant", "list"), ("logs",), ("demo",)):
            assert failed.run(*command).stderr == "Error: Nothing runs here. Start it: ./admit up\n"
        assert failed.run("down", "--purge", "--yes").returncode == 0
        assert not failed.var.exists()
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["/proc/admit/var", "/dev/null/var"])
def test_folder_that_cannot_be_made_is_refused_in_a_sentence(name: str):
    done = make_installation(Path(name)).up()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: The folder {name} cannot be made: ")
    assert len(done.stderr.splitlines()) == 1


def test_link_to_the_command_serves(tmp_path: Path):
    (tmp_path / "other").symlink_to(CHECKOUT / "admit")
    done = subprocess.run([tmp_path / "other", "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_first_start_makes_every_process_healthy(up: Installation):
    rows = up.processes()
    assert list(rows) == ["postgres", "redis", "agent", "api", "public", "enrolment", "mailbox", "worker"]
    assert {row["state"] for row in rows.values()} == {"running"}
    assert {row["complaint"] for row in rows.values()} == {""}


@pytest.mark.skipif(not is_root(), reason="becomes another account")
def test_another_account_is_told_so(up: Installation):
    for command in (("status",), ("logs",), ("tenant", "list")):
        done = up.run(*command, **Account("nobody", 65534, 65534).run_as())
        if "Permission denied" in done.stderr:
            pytest.skip("this checkout is closed to other users")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: You may not ")


def test_secret_of_a_nas_is_in_force_when_the_command_returns(up: Installation):
    assert up.run("msp", "create", "acme").returncode == 0
    tenant = json.loads(up.run("tenant", "create", "acme", "--json").stdout)
    own = "a-secret-of-its-own-0123"
    switch = ("--address", "127.0.0.1", "--secret", own)
    for command, secret in ((("add", "core-1", *switch), own), (("remove", "core-1"), tenant["radius_secret"])):
        done = up.run("nas", *command, "-t", "acme")
        assert (done.returncode, done.stderr) == (0, "")
        server = Server("127.0.0.1", tenant["auth_port"], tenant["acct_port"], secret)
        assert radclient(server, "auth", [("User-Name", "nobody"), ("User-Password", "x")]) is not None


@pytest.mark.long
def test_demo_is_as_expected_with_the_checks_that_take_long(up: Installation):
    board = json.loads(up.run("demo", "--json").stdout)
    assert [row for row in board["rows"] if not row["ok"]] == []
    silent = [row for row in board["rows"] if row["reason"] == "conversation-abandoned"]
    assert [(row["tenant"], row["got"]) for row in silent] == [("alpha", "silence"), ("bravo", "silence")]
    assert all(row["advice"].startswith("No answer came") for row in silent)
    told = json.loads(up.run("decisions", "-t", "alpha", "--reason", "conversation-abandoned", "--json").stdout)
    assert [(row["verdict"], row["advice"]) for row in told] == [("deny", silent[0]["advice"])]


def test_later_starts_keep_the_choice_without_demo_and_restart_nothing(up: Installation):
    before = up.pids()
    file = up.var / "admit.env"
    assert "ADMIT_DEMO=no\n" in file.read_text()
    again = up.run("up", "--no-install")
    assert (again.returncode, "tenant alpha" in again.stdout) == (0, False)
    file.write_text(file.read_text().replace("ADMIT_DEMO=no", "ADMIT_DEMO=perhaps"))
    assert "ADMIT_DEMO is 'perhaps'" in up.run("up", "--no-install").stderr
    assert up.up().returncode == 0
    assert up.pids() == before


@pytest.mark.long
def test_demo_that_a_person_changed_is_no_failure_to_start(up: Installation):
    started = up.run("up", "--no-install", "--demo")
    assert (started.returncode, "checks are as expected" in started.stdout) == (0, True)
    up.run("tenant", "suspend", "alpha")
    up.run("down")
    started = up.run("up", "--no-install")
    assert (started.returncode, started.stderr) == (0, "")
    assert "Everything runs. These rows of the demo differ" in started.stdout
    assert "./admit demo --reset" in started.stdout
    up.run("tenant", "resume", "alpha")


def test_killed_process_is_healthy_again_after_up(up: Installation):
    before = up.pids()
    for name in ("worker", "redis"):
        os.kill(before[name], signal.SIGKILL)
    assert up.up().returncode == 0
    after = up.pids()
    assert up.is_well()
    assert after["worker"] != before["worker"]
    assert after["postgres"] == before["postgres"]


@pytest.mark.long
def test_killed_supervisor_is_no_obstacle(up: Installation):
    before = up.pids()
    os.kill(int((up.place("run") / "supervisord.pid").read_text()), signal.SIGKILL)
    done = up.up()
    assert "an earlier supervisor left behind" in done.stdout
    assert up.is_well()
    assert not procfs.is_running(before["agent"])


def test_damaged_settings_are_refused_with_every_mistake(up: Installation):
    file = up.var / "admit.env"
    good = file.read_text()
    changed = {"ADMIT_JOURNAL_SYNC": "never", "ADMIT_REJECT_DELAY_SECONDS": "soon"}
    file.write_text(good + "".join(f"{name}={value}\n" for name, value in changed.items()))
    try:
        done = up.up()
    finally:
        file.write_text(good)
    assert done.returncode == 1
    assert all(name in done.stderr for name in changed)


@pytest.mark.parametrize(
    ("option", "words"), [("--listen", "no address 192.0.2.1"), ("--api-port", "TCP port {api} of 127.0.0.1 is taken")]
)
def test_choice_that_cannot_be_met_leaves_everything_running(up: Installation, option: str, words: str):
    before = up.pids()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        api = str(holder.getsockname()[1])
        done = up.run("up", "--no-install", "--no-demo", option, "192.0.2.1" if option == "--listen" else api)
    assert done.returncode == 1
    assert words.format(api=api) in done.stderr
    assert up.pids() == before


@pytest.mark.long
def test_newer_database_is_refused(up: Installation):
    with up.connect() as connection:
        (head,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
        connection.execute("UPDATE alembic_version SET version_num = '9999_future'")
    try:
        done = up.up()
    finally:
        with up.connect() as connection:
            connection.execute("UPDATE alembic_version SET version_num = %s", (head,))
    assert done.returncode == 1
    assert "9999_future, which this version does not know" in done.stderr
    assert "Traceback" not in done.stderr


def test_down_leaves_no_process_and_its_purge_no_file_and_a_taken_port_is_named(up: Installation):
    assert up.run("down").returncode == 0
    assert up.left_running() == []
    assert up.run("status").returncode == 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", up.first_port + 3))
        done = up.up()
    assert done.returncode == 1
    assert f"UDP port {up.first_port + 3} of 127.0.0.1 is taken" in done.stderr
    assert up.left_running() == []
    places = [up.place("run"), up.place("postgres")]
    sessions = CellPaths(up.var / "cells" / "cell-1").sessions
    assert sessions.exists()
    assert up.run("down", "--purge", "--yes").returncode == 0
    assert not up.var.exists()
    assert not sessions.exists()
    assert not any(place.exists() for place in places)
    assert up.run("status").returncode == 1
