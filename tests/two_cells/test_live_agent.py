"""A real agent and radiusd: `admit watch` and event streams of the API show the activity of devices, even during an
outage of Redis.
"""

import json
import os
import signal
import subprocess
import sys
import threading

import httpx
import psycopg
import pytest

from api.main import create_app
from cli.layout import CHECKOUT
from loadtest.radius_client import RadiusClient, Target
from loadtest.workloads import BENCH_NAS, AccountingSource, BenchDevice, mab_request
from nac.accounts.operator_tokens import OperatorToken, get_key_file, make_key, read_key
from nac.kit.radius_packet import ACCESS_REJECT
from tests.api.app_server import serve_app_on_port, settings_of_public
from tests.api.v1.conftest import bearer
from tests.api.v1.test_events import Stream
from tests.polling import until

pytestmark = pytest.mark.early


class Watch:
    """`./admit watch`, with the lines of its standard output and standard error."""

    def __init__(self, environment, tenant, *options):
        # A background process of the shell ignores SIGINT, so restore the default.
        command = ["env", "--default-signal=INT", sys.executable, "-P", "-m", "cli", "watch", "-t", tenant, *options]
        self.process = subprocess.Popen(
            command, env=environment, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.events, self.notes = [], []
        self._readers = [
            threading.Thread(target=lambda: self.events.extend(iter(self.process.stdout.readline, ""))),
            threading.Thread(target=lambda: self.notes.extend(iter(self.process.stderr.readline, ""))),
        ]
        for reader in self._readers:
            reader.start()

    def wait_note(self, text):
        until(lambda: any(text in note for note in self.notes), f"{text!r} in {self.notes}")

    def wait_events(self, number):
        until(lambda: len(self.events) >= number, f"{number} events: {self.events} {self.notes}")

    def end(self):
        """Send SIGINT, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(20)
        for reader in self._readers:
            reader.join()
        assert status == 0, "".join(self.notes)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def environment(cell, database, redis_server, tmp_path):
    """Settings of an installation with the cell, Redis and an API."""
    key = get_key_file(cell.folder)
    key.parent.mkdir(exist_ok=True)
    key.write_text(make_key())
    settings = settings_of_public(
        database,
        tmp_path,
        ADMIT_MASTER_KEY_FILE=str(cell.folder / "master.key"),
        ADMIT_VAR_DIR=str(cell.folder),
        ADMIT_REDIS_URL=redis_server.url,
    )
    with serve_app_on_port(create_app(settings)) as url:
        yield _environment_of(cell, redis_server) | {"ADMIT_API_PORT": url.rpartition(":")[2]}


def _environment_of(cell, redis):
    given = {
        "VAR_DIR": str(cell.folder),
        "DATABASE_URL": cell.database.app_url,
        "MASTER_KEY_FILE": str(cell.folder / "master.key"),
        "REDIS_URL": redis.url,
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")}
    layout = {"run": str(cell.folder), "postgres": str(cell.folder), "database_account": None, "is_separated": False}
    (cell.folder / "layout.json").write_text(json.dumps(layout))
    (cell.folder / "admit.env").touch()
    return kept | {f"ADMIT_{name}": value for name, value in given.items()}


def test_live_events_show_device_activity(environment, cell, add_tenant, database, redis_server):
    tenant = add_tenant()
    token = OperatorToken.make(read_key(get_key_file(cell.folder)), user="test").reveal()
    address = f"http://127.0.0.1:{environment['ADMIT_API_PORT']}"
    with (
        httpx.Client(base_url=address, trust_env=False, timeout=20) as client,
        Stream(client, f"/v1/tenants/{tenant.slug}/events", bearer(token), rejects="true") as stream,
    ):
        assert stream.wait_notice("listening")["tenant"] == tenant.slug
        _show_activity(environment, cell, tenant, database, redis_server)
        stream.wait_notice("lost")
        stream.wait_notice("back")
        until(lambda: len(stream.events) >= 3, "rejects before and after the outage")
    assert {each["client"]["mac"][:-1] for each in stream.events} == {"02-AA-00-00-00-0"}
    assert {each["event"] for each in stream.messages} == {"notice", "authentication"}


def _show_activity(environment, cell, tenant, database, redis_server):
    server = tenant.server
    target = Target(server.host, server.auth_port, server.acct_port, server.secret.encode())
    watches = [
        Watch(environment, tenant.slug, *options)
        for options in (["--json"], ["--mac", "02-AA-00-00-00-01", "--rejects"])
    ]
    for watch in watches:
        watch.wait_note(f"Listening to {tenant.slug}.")
    with RadiusClient() as client:
        for mac in ("02aa00000001", "02aa00000002"):
            asked = mab_request(target, mac, BENCH_NAS.attributes(), expected=ACCESS_REJECT)
            assert client.ask(asked).faults() == {}
        source = AccountingSource([BenchDevice(target, "02aa00000001", None)], prefix="w")
        assert client.run(source, count=1, window=1).faults() == {}
    watches[0].wait_events(3)
    watches[1].wait_events(1)
    redis_server.stop()
    for watch in watches:
        watch.wait_note("Lost")
    redis_server.start()
    for watch in watches:
        watch.wait_note("Reconnected")

    def is_received_again():
        with RadiusClient() as client:
            client.ask(mab_request(target, "02aa00000003", BENCH_NAS.attributes(), expected=ACCESS_REJECT))
        return len(watches[0].events) > 3

    until(is_received_again, "the agent has found Redis again, too")
    # A client that waits for the current journal is notified when the journal is stored.
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        (now,) = owner.execute("SELECT now()").fetchone()
        stored = "SELECT shipped_until > %s FROM cells"
        until(lambda: owner.execute(stored, (now,)).fetchone() == (True,), "the cell tells what is stored")
    for watch in watches:
        watch.end()
    told = [json.loads(line) for line in watches[0].events[:3]]
    assert sorted(each["admit"]["kind"] for each in told) == ["accounting", "authentication", "authentication"]
    assert {each["client"]["mac"] for each in told} == {"02-AA-00-00-00-01", "02-AA-00-00-00-02"}
    assert {each["organization"]["name"] for each in told} == {tenant.slug}
    (line,) = watches[1].events
    assert "02:aa:00:00:00:01 refused at bench-switch" in line
