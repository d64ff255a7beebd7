"""Delivery to feeds by a real worker that is killed."""

import os
import signal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from nac.logs.feeds.settings import SyslogSettings
from tests.factories.certificates import write_master_key
from tests.factories.tenancy import Platform
from tests.feeds.conftest import Tenancy, tenancy, webhook
from tests.feeds.syslog_receiver import SyslogReceiver
from tests.feeds.webhook_receiver import LOCALHOST, WebhookReceiver
from tests.outbound.listener import listening
from tests.polling import PATIENCE_SECONDS
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.worker.conftest import last_heartbeat, wait_for, worker

pytestmark = pytest.mark.early
KINDS = ("authentication",)


@pytest.fixture
def acme(database: Database, app_engine: Engine, worker_engine: Engine, platform: Platform) -> Tenancy:
    return tenancy(database, app_engine, worker_engine, platform, "acme-office")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIT_MASTER_KEY_FILE", str(write_master_key(tmp_path)))
    monkeypatch.setenv("ADMIT_OUTBOUND_NETWORKS", "127.0.0.0/8")


@pytest.mark.long
@pytest.mark.usefixtures("environment")
def test_worker_killed_during_delivery_loses_nothing(
    acme: Tenancy, database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    names = [f"user {number}" for number in range(450)]
    (tmp_path / "syslog").mkdir()
    with (
        WebhookReceiver(tmp_path).listening() as hook,
        SyslogReceiver(tmp_path / "syslog").listening() as siem,
        listening() as silent,
    ):
        acme.add("hook", webhook(hook.port, LOCALHOST.certificate, kinds=KINDS))
        acme.add("silent", webhook(silent.getsockname()[1], LOCALHOST.certificate, kinds=KINDS))
        acme.add(
            "siem",
            SyslogSettings(host="localhost", port=siem.port, ca_certificate=LOCALHOST.certificate, kinds=KINDS),
        )
        acme.log(*names)
        # The webhook accepted one batch, and the next batch hangs. Syslog has sent, and waits for the end of the
        # connection.
        hook.answers = [hook.usual, hook.slow]
        with worker(database, redis_server, tmp_path) as process:
            wait_for(lambda: len(hook.requests) >= 2, tmp_path)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_SECONDS)
        hook.is_over.set()
        assert acme.feed("hook").delivered <= 100
        acme.log("after the death")
        with worker(database, redis_server, tmp_path):
            wait_for(lambda: set(hook.names) == {*names, "after the death"}, tmp_path, seconds=40)
            wait_for(lambda: set(siem.names) == {*names, "after the death"}, tmp_path, seconds=40)
            # Other jobs run while a receiver hangs.
            first = last_heartbeat(redis_server)
            wait_for(lambda: last_heartbeat(redis_server) > first, tmp_path, seconds=20)
            wait_for(lambda: acme.state("silent") == "failing", tmp_path)
    # The value is the webhook's address.
    assert "of-the-receiver" not in (tmp_path / "worker.log").read_text()
    # Duplicates have equal ids.
    assert len(set(hook.ids)) == len(set(siem.ids)) == len(names) + 1
