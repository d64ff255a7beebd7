"""A real worker process with beat, a real Redis and a real PostgreSQL."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
import redis
from sqlalchemy import Engine

from nac.certificates.signing import SigningContext
from nac.kit.clock import epoch_seconds
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.kit.secrets import MasterKeyFile, Sealer
from tests.factories.certificates import certify
from tests.factories.tenancy import Platform, make_tenant
from tests.polling import PATIENCE_SECONDS
from tests.postgres import Database
from tests.redis_server import RedisServer
from worker.constants import HEARTBEAT_KEY
from worker.jobs.certificates import renew, warn
from worker.priority import NICENESS

pytestmark = pytest.mark.early


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@contextmanager
def worker(database: Database, redis_server: RedisServer, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "ADMIT_VAR_DIR": str(folder),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_WORKER_URL": database.worker_url,
        "ADMIT_REDIS_URL": redis_server.url,
    }
    command = [sys.executable, "-m", "worker", "--processes=1", f"--schedule={folder / 'beat'}"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_SECONDS)


def wait_for(condition: Callable[[], bool], folder: Path, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, (folder / "worker.log").read_text()
        time.sleep(0.1)


def last_heartbeat(server: RedisServer) -> int:
    with redis.Redis.from_url(server.url) as client:
        return int(client.get(HEARTBEAT_KEY) or 0)


def partitions(database: Database) -> list[str]:
    """Daily partitions of the two log tables."""
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute(
            "SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_class p ON p.oid = inhparent"
            " WHERE p.relname IN ('auth_log', 'accounting_log')"
        ).fetchall()
    return [name for (name,) in rows if not name.endswith("_default")]


def insert_change(database: Database, *, days_ago: int) -> None:
    """Insert a change for which no cell waits, because this database has no cell."""
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "INSERT INTO replica_changes (at, noun, key) VALUES (now() - make_interval(days => %s), 'endpoint', 'x')",
            (days_ago,),
        )


def changes(database: Database) -> int:
    with psycopg.connect(database.owner_url) as connection:
        row = connection.execute("SELECT count(*) FROM replica_changes WHERE key = 'x'").fetchone()
    assert row is not None
    return row[0]


def insert_log_of_purged_tenant(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "WITH gone AS (INSERT INTO purged_tenants (tenant_id) VALUES (gen_random_uuid()) RETURNING tenant_id) "
            "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason) "
            "SELECT '2001-01-01', tenant_id, 1, 'mab', true, 'x' FROM gone"
        )


def auth_log_rows(database: Database) -> int:
    with psycopg.connect(database.owner_url) as connection:
        return len(connection.execute("SELECT FROM auth_log").fetchall())


def drop_partitions(database: Database) -> None:
    names = partitions(database)
    with psycopg.connect(database.owner_url) as connection:
        for name in names:
            connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(psycopg.sql.Identifier(name)))


def backends(database: Database) -> list[int]:
    """Process ids of the worker's PostgreSQL server processes, when it has used its connections."""
    with psycopg.connect(database.superuser_url) as connection:
        rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'admit-worker'").fetchall()
    assert rows
    return [pid for (pid,) in rows]


def nicenesses(processes: list[int]) -> list[int]:
    return [os.getpriority(os.PRIO_PROCESS, process) for process in processes]


def test_started_worker_creates_partitions_and_deletes_old_rows(
    database: Database, redis_server: RedisServer, tmp_path: Path
):
    drop_partitions(database)
    insert_change(database, days_ago=2)
    insert_change(database, days_ago=0)
    insert_log_of_purged_tenant(database)
    started = epoch_seconds()
    with worker(database, redis_server, tmp_path) as process:
        # The worker runs these jobs at its start, long before beat's first run for the partitions.
        wait_for(lambda: last_heartbeat(redis_server) >= started, tmp_path)
        # Partitions from yesterday to a week ahead, for two tables.
        wait_for(lambda: len(partitions(database)) == 2 * 9, tmp_path)
        # The old part of the change feed is deleted, and the new part remains.
        wait_for(lambda: changes(database) == 1, tmp_path)
        wait_for(lambda: auth_log_rows(database) == 0, tmp_path)
        wait_for(lambda: set(nicenesses([process.pid, *backends(database)])) == {NICENESS}, tmp_path)
        first = last_heartbeat(redis_server)
        wait_for(lambda: last_heartbeat(redis_server) > first, tmp_path, seconds=12)


@pytest.mark.long
def test_worker_survives_a_redis_outage(database: Database, redis_server: RedisServer, tmp_path: Path):
    with worker(database, redis_server, tmp_path) as process:
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        redis_server.stop()
        time.sleep(2)
        # Redis is empty, because its contents were not on disk.
        redis_server.start()
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path, seconds=45)
        assert process.poll() is None


def test_beat_ends_with_its_killed_worker(database: Database, redis_server: RedisServer, tmp_path: Path):
    with worker(database, redis_server, tmp_path) as process:
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        # The process group of the worker contains every process that it started.
        wait_for(lambda: not running_in_group(process.pid), tmp_path)


def running_in_group(group: int) -> list[int]:
    """Processes of the group except zombies."""
    stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
    return [int(parent) for state, parent, of, *_ in stats if int(of) == group and state != "Z"]


def test_worker_without_settings_names_them_and_exits(tmp_path: Path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")}
    command = [sys.executable, "-m", "worker", "--processes=1", f"--schedule={tmp_path / 'beat'}"]
    said = subprocess.run(
        command, env=environment | {"ADMIT_VAR_DIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert said.returncode != 0
    assert "ADMIT_DATABASE_WORKER_URL is not set" in said.stderr
    assert "ADMIT_REDIS_URL is not set" in said.stderr


@pytest.mark.long
def test_worker_creates_seen_endpoints_and_deletes_old_ones(
    app_engine: Engine, platform: Platform, database: Database, redis_server: RedisServer, tmp_path: Path
):
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "INSERT INTO endpoints (tenant_id, mac, status, first_seen_at) "
            "VALUES (%s, '00:40:8c:00:00:01', 'discovered', now() - interval '31 days')",
            [tenant_id],
        )

    def see(mac: str) -> None:
        with psycopg.connect(database.owner_url) as connection:
            connection.execute(
                "INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at) VALUES (%s, %s, now())", [tenant_id, mac]
            )
            connection.execute("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, %s)", [tenant_id, mac])

    def vendors() -> dict[str, str]:
        with psycopg.connect(database.owner_url) as connection:
            return dict(connection.execute("SELECT mac::text, vendor FROM endpoints").fetchall())

    brothers = {"00:1b:a9:00:00:01": "Brother industries, LTD."}
    with worker(database, redis_server, tmp_path):
        see("00:1b:a9:00:00:01")
        wait_for(lambda: vendors() == brothers, tmp_path)
        # Only beat's schedule runs the second deletion.
        see("b8:27:eb:00:00:01")
        wait_for(lambda: vendors() == brothers | {"b8:27:eb:00:00:01": "Raspberry Pi Foundation"}, tmp_path)


@pytest.mark.long
def test_worker_renews_expiring_certificates_and_warns_once(
    app_engine, platform, worker_engine, database, redis_server, tmp_path, monkeypatch
):
    signing = SigningContext(
        Sealer(MasterKeyFile.create(tmp_path / "keys" / "master.key")), "http://status.admit.example"
    )
    broken, alpha = (
        certify(app_engine, make_tenant(app_engine, platform, slug).id, signing=signing) for slug in ("a-broken", "b")
    )
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        alpha.issue(session, signing=signing)
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute(
            "UPDATE certificates SET not_before = now() - interval '780 days', not_after = now() + interval '40 days'"
        )
        # The issuing authority would expire before a device's certificate, so the worker replaces it first.
        connection.execute(
            "UPDATE certificate_authorities SET not_after = now() + interval '100 days' WHERE kind = 'issuing'"
        )
        # An error at one tenant does not stop the job for other tenants.
        connection.execute(
            "UPDATE certificate_authorities SET key_sealed = 'damaged' WHERE tenant_id = %s", [broken.tenant_id]
        )

    def found(statement: LiteralString) -> int:
        with psycopg.connect(database.superuser_url) as connection:
            row = connection.execute(statement, [alpha.tenant_id]).fetchone()
        assert row is not None
        return row[0]

    renewed = "SELECT count(*) FROM certificates WHERE tenant_id = %s AND present_from > now()"
    issuing = "SELECT count(*) FROM certificate_authorities WHERE tenant_id = %s AND kind = 'issuing'"
    told = "SELECT count(*) FROM audit_log WHERE tenant_id = %s AND action IN ('certificate.renew', 'authority.retire')"
    warned = "SELECT count(*) FROM audit_log WHERE tenant_id = %s AND action = 'certificate.expiring'"
    logged = "of kind client expire within 60 days"
    with worker(database, redis_server, tmp_path):
        wait_for(lambda: str(broken.tenant_id) in (tmp_path / "worker.log").read_text(), tmp_path)
        wait_for(lambda: found(renewed) == 1 and found(warned) == 1, tmp_path)
        wait_for(lambda: logged in (tmp_path / "worker.log").read_text(), tmp_path)
    # The job does not repeat completed work.
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    set_process_engine(worker_engine)
    try:
        renew()
        warn()
    finally:
        set_process_engine(None)
    assert (found(renewed), found(issuing), found(told), found(warned)) == (1, 2, 2, 1)


def test_killed_processes_are_replaced(database: Database, redis_server: RedisServer, tmp_path: Path) -> None:
    """One of the killed processes is beat, which schedules every job."""
    with worker(database, redis_server, tmp_path) as process:
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        with redis.Redis.from_url(redis_server.url) as client:
            client.delete(HEARTBEAT_KEY)
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        assert "beat has died" in (tmp_path / "worker.log").read_text()
