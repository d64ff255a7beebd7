"""Retention and exports with a real worker, started by beat."""

import gzip
import json
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from cli.health import read_platform_alarms
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope, set_process_engine
from nac.kit.settings import load_settings
from nac.logs.exports import service
from nac.models import ExportJob
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.worker.test_worker import redis_server, wait_for, worker
from worker.jobs.alarms import publish
from worker.jobs.exports import prune
from worker.jobs.logs import enforce

__all__ = ["redis_server"]


def insert_decision(database: Database, tenant_id: object, *, days_ago: int) -> None:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, identity)"
            " VALUES (now() - make_interval(days => %s), %s, 1, 'mab', true, 'x', 'ann')",
            (days_ago, tenant_id),
        )


@pytest.mark.long
def test_started_export_is_done_by_the_worker(
    app_engine: Engine, platform: Platform, database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    insert_decision(database, tenant_id, days_ago=1)

    def job() -> ExportJob:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            return service.list_exports(session, tenant_id=tenant_id)[0]

    with worker(database, redis_server, tmp_path):
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            since, until = utc_now() - timedelta(days=2), utc_now()
            asked = {"log": "auth", "format": "jsonl", "since": since, "until": until}
            service.start_export(session, actor=ACTOR, tenant_id=tenant_id, **asked)
        wait_for(lambda: job().state == "done", tmp_path)
    (part,) = job().parts
    content = (tmp_path / "exports" / str(tenant_id) / str(job().id) / part["file"]).read_bytes()
    assert json.loads(gzip.decompress(content))["identity"] == "ann"


def test_jobs_take_their_settings_from_the_environment(
    app_engine, worker_engine, platform, database, redis_server, tmp_path, monkeypatch
) -> None:
    tenant_id = make_tenant(app_engine, platform, "alpha").id
    monkeypatch.setenv("ADMIT_REDIS_URL", redis_server.url)
    insert_decision(database, tenant_id, days_ago=1_000)
    stray = tmp_path / "elsewhere" / str(tenant_id) / "7"
    stray.mkdir(parents=True)
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    monkeypatch.setenv("ADMIT_EXPORT_DIR", str(tmp_path / "elsewhere"))
    hour = utc_now().hour
    closed, open_now = (f"{(hour + ahead) % 24:02}:00-{(hour + ahead + 3) % 24:02}:00" for ahead in (6, 23))
    set_process_engine(worker_engine)
    try:
        prune()
        assert not stray.exists()
        for window, left in ((closed, 1), (open_now, 0)):
            monkeypatch.setenv("ADMIT_RETENTION_WINDOW", window)
            enforce()
            with psycopg.connect(database.owner_url) as connection:
                assert connection.execute("SELECT count(*) FROM auth_log").fetchone() == (left,)
        # An almost full database, as `./admit status` reports it.
        for most, told in (("1", ["database-nearly-full"]), ("0", [])):
            monkeypatch.setenv("ADMIT_DATABASE_MAX_BYTES", most)
            enforce()
            publish()
            assert [alarm["code"] for alarm in read_platform_alarms(load_settings())] == told
        # Files also remain while the clock is not trusted.
        stray.mkdir(parents=True)
        with psycopg.connect(database.owner_url) as connection:
            connection.execute("UPDATE retention_clock SET doubted_until = now() + interval '1 day'")
        prune()
        assert stray.exists()
    finally:
        set_process_engine(None)
