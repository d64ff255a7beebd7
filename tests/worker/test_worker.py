"""The worker process: its schedule, its settings, and its end."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql
from sqlalchemy import Engine

from cli.health import read_platform_alarms
from nac.certificates.signing import SigningContext
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.logs.exports import service as exports
from nac.models import ExportJob
from tests.factories.certificates import certify
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.polling import PATIENCE_SECONDS
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.worker.conftest import Query, last_heartbeat, wait_for, worker
from worker.constants import HEARTBEAT_KEY
from worker.jobs.alarms import publish
from worker.jobs.certificates import renew, warn
from worker.jobs.exports import prune
from worker.jobs.retention import enforce
from worker.priority import NICENESS

pytestmark = pytest.mark.early

# Daily partitions of the two log tables.
_PARTITIONS = """
SELECT c.relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_class p ON p.oid = inhparent
WHERE p.relname IN ('auth_log', 'accounting_log') AND c.relname NOT LIKE '%%_default'
"""
_DECISION = "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, identity)"


def nicenesses(processes: list[int]) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, process) for process in processes}


def test_started_worker_creates_partitions_and_deletes_old_rows(
    query: Query, database: Database, redis_server: RedisServer, tmp_path: Path
):
    with psycopg.connect(database.owner_url) as connection:
        for (name,) in query(_PARTITIONS):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    # Changes for which no cell waits, because this database has no cell.
    query(
        "INSERT INTO replica_changes (at, noun, key)"
        " SELECT now() - make_interval(days => n), 'endpoint', 'x' FROM unnest('{0,2}'::int[]) n"
    )
    query(
        "WITH gone AS (INSERT INTO purged_tenants (tenant_id) VALUES (gen_random_uuid()) RETURNING tenant_id)"
        f" {_DECISION} SELECT '2001-01-01', tenant_id, 1, 'mab', true, 'x', '' FROM gone"
    )
    started = epoch_seconds()
    with worker(database, redis_server, tmp_path) as process:
        # The worker runs these jobs at its start, long before beat's first run for the partitions.
        wait_for(lambda: last_heartbeat(redis_server) >= started, tmp_path)
        # Partitions from yesterday to a week ahead, for two tables.
        wait_for(lambda: len(query(_PARTITIONS)) == 2 * 9, tmp_path)
        # The old part of the change feed is deleted, and the new part remains.
        wait_for(lambda: query("SELECT count(*) FROM replica_changes WHERE key = 'x'") == [(1,)], tmp_path)
        wait_for(lambda: query("SELECT FROM auth_log") == [], tmp_path)
        backends = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'admit-worker'")
        assert backends
        wait_for(lambda: nicenesses([process.pid, *(pid for (pid,) in backends)]) == {NICENESS}, tmp_path)
        first = last_heartbeat(redis_server)
        wait_for(lambda: last_heartbeat(redis_server) > first, tmp_path, seconds=12)


def running_in_group(group: int) -> list[int]:
    """Processes of the group except zombies."""
    stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
    return [int(parent) for state, parent, of, *_ in stats if int(of) == group and state != "Z"]


def test_killed_processes_are_replaced_or_end_with_the_worker(
    database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    with worker(database, redis_server, tmp_path) as process:
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        # One of the children is beat, which schedules every job.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        with redis.Redis.from_url(redis_server.url) as client:
            client.delete(HEARTBEAT_KEY)
        wait_for(lambda: last_heartbeat(redis_server) > 0, tmp_path)
        assert "beat has died" in (tmp_path / "worker.log").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        # The process group of the worker contains every process that it started.
        wait_for(lambda: not running_in_group(process.pid), tmp_path)


def test_worker_without_settings_names_them_and_exits(tmp_path: Path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADMIT_")}
    command = [sys.executable, "-m", "worker", "--processes=1", f"--schedule={tmp_path / 'beat'}"]
    environment |= {"ADMIT_VAR_DIR": str(tmp_path)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode != 0
    for name in ("DATABASE_WORKER_URL", "REDIS_URL"):
        assert f"ADMIT_{name} is not set" in said.stderr


@pytest.mark.long
def test_worker_exports_discovers_endpoints_and_deletes_old_ones(
    app_engine: Engine, platform: Platform, query: Query, database: Database, redis_server: RedisServer, tmp_path: Path
):
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    query(f"{_DECISION} VALUES (now() - interval '1 day', %s, 1, 'mab', true, 'x', 'ann')", tenant_id)
    query(
        "INSERT INTO endpoints (tenant_id, mac, status, first_seen_at)"
        " VALUES (%s, '00:40:8c:00:00:01', 'discovered', now() - interval '31 days')",
        tenant_id,
    )

    def see(mac: str) -> None:
        query("INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at) VALUES (%s, %s, now())", tenant_id, mac)
        query("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, %s)", tenant_id, mac)

    def vendors() -> dict[str, str]:
        return dict(query("SELECT mac::text, vendor FROM endpoints"))

    def export() -> ExportJob:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            return exports.list_exports(session, tenant_id=tenant_id)[0]

    brothers = {"00:1b:a9:00:00:01": "Brother industries, LTD."}
    with worker(database, redis_server, tmp_path):
        see("00:1b:a9:00:00:01")
        wait_for(lambda: vendors() == brothers, tmp_path)
        # Only beat's schedule runs the second deletion.
        see("b8:27:eb:00:00:01")
        wait_for(lambda: vendors() == brothers | {"b8:27:eb:00:00:01": "Raspberry Pi Foundation"}, tmp_path)
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            span = {"since": utc_now() - timedelta(days=2), "until": utc_now()}
            exports.start_export(session, actor=ACTOR, tenant_id=tenant_id, log="auth", format="jsonl", **span)
        wait_for(lambda: export().state == "done", tmp_path)
    assert len(export().parts) == 1


@pytest.mark.long
def test_worker_renews_expiring_certificates_and_warns_once(
    app_engine, platform, query, worker_engine, database, redis_server, tmp_path, monkeypatch
):
    sealer = Sealer(MasterKeyFile.create(tmp_path / "keys" / "master.key"))
    signing = SigningContext(sealer, "http://status.admit.example")
    broken, alpha = (
        certify(app_engine, make_tenant(app_engine, platform, slug).id, signing=signing) for slug in ("a-broken", "b")
    )
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        alpha.issue(session, signing=signing)
    query("UPDATE certificates SET not_before = now() - interval '780 days', not_after = now() + interval '40 days'")
    # The issuing authority would expire before a device's certificate, so the worker replaces it first.
    query("UPDATE certificate_authorities SET not_after = now() + interval '100 days' WHERE kind = 'issuing'")
    # An error at one tenant does not stop the job for other tenants.
    query("UPDATE certificate_authorities SET key_sealed = 'damaged' WHERE tenant_id = %s", broken.tenant_id)

    def count(rows: str) -> int:
        [(number,)] = query(f"SELECT count(*) FROM {rows} AND tenant_id = %s", alpha.tenant_id)
        return number

    renewed = "certificates WHERE present_from > now()"
    warned = "audit_log WHERE action = 'certificate.expiring'"
    logged = "of kind client expire within 60 days"
    with worker(database, redis_server, tmp_path):
        wait_for(lambda: str(broken.tenant_id) in (tmp_path / "worker.log").read_text(), tmp_path)
        wait_for(lambda: count(renewed) == 1 and count(warned) == 1, tmp_path)
        wait_for(lambda: logged in (tmp_path / "worker.log").read_text(), tmp_path)
    # The job does not repeat completed work.
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    set_process_engine(worker_engine)
    try:
        renew()
        warn()
    finally:
        set_process_engine(None)
    assert (count(renewed), count(warned)) == (1, 1)
    assert count("certificate_authorities WHERE kind = 'issuing'") == 2
    assert count("audit_log WHERE action IN ('certificate.renew', 'authority.retire')") == 2


def test_jobs_take_their_settings_from_the_environment(
    app_engine: Engine, platform: Platform, query: Query, job_process: None, tmp_path: Path, monkeypatch
) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    monkeypatch.setenv("ADMIT_EXPORT_DIR", str(tmp_path / "elsewhere"))
    query(f"{_DECISION} VALUES (now() - interval '1000 days', %s, 1, 'mab', true, 'x', 'ann')", tenant_id)
    stray = tmp_path / "elsewhere" / str(tenant_id) / "7"
    stray.mkdir(parents=True)
    prune()
    assert not stray.exists()
    hour = utc_now().hour
    closed, open_now = (f"{(hour + ahead) % 24:02}:00-{(hour + ahead + 3) % 24:02}:00" for ahead in (6, 23))
    for window, left in ((closed, 1), (open_now, 0)):
        monkeypatch.setenv("ADMIT_RETENTION_WINDOW", window)
        enforce()
        assert query("SELECT count(*) FROM auth_log") == [(left,)]
    # Files also remain while the clock is not trusted.
    stray.mkdir(parents=True)
    query("UPDATE retention_clock SET doubted_until = now() + interval '1 day'")
    prune()
    assert stray.exists()


def test_almost_full_database_is_an_alarm_in_redis(
    query: Query, job_process: None, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADMIT_REDIS_URL", redis_server.url)
    for most, told in (("1", ["database-nearly-full"]), ("0", [])):
        monkeypatch.setenv("ADMIT_DATABASE_MAX_BYTES", most)
        enforce()
        publish()
        # As `./admit status` reports it.
        assert [alarm["code"] for alarm in read_platform_alarms(load_settings())] == told
