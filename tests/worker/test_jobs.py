"""Background jobs run once with a real worker, Redis and PostgreSQL, of which each may be killed."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.core.access.grants import Owner
from nac.core.jobs import service
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import make_token as make_token
from tests.factories.certificates import write_master_key
from tests.factories.tenancy import Platform, make_tenant
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.worker.conftest import Query, wait_for, worker

pytestmark = pytest.mark.early

ENDPOINTS = "/v1/tenants/alpha/endpoints"
# The worker has low priority on the machine, lower than other tests.
_PATIENCE = 240


@pytest.fixture
def client(
    database: Database, redis_server: RedisServer, app_engine: Engine, platform: Platform, make_token, tmp_path: Path
) -> Iterator[httpx.Client]:
    """A client of an API beside the worker, with a token of alpha."""
    tenant_id = TenantId(make_tenant(app_engine, platform, "alpha").id)
    app = create_app(settings_of_public(database, tmp_path, ADMIT_REDIS_URL=redis_server.url))
    with pytest.MonkeyPatch.context() as patch, serve_app(app) as client:
        patch.setenv("ADMIT_MASTER_KEY_FILE", str(write_master_key(tmp_path)))
        client.headers["Authorization"] = f"Bearer {make_token(Owner(tenant_id=tenant_id))}"
        yield client


def put_endpoints(client: httpx.Client, number: int) -> UUID:
    """Write endpoints as a background job."""
    items = [{"mac": f"02f0{each:08x}", "name": f"device {each}"} for each in range(number)]
    given = {"operation": "put", "items": items, "allow_random": True}
    answer = client.post(f"{ENDPOINTS}/bulk", json=given, timeout=60)
    assert answer.status_code == 202, answer.text
    return UUID(answer.json()["id"])


@pytest.mark.long
def test_job_waits_for_redis_and_then_runs(
    client: httpx.Client, database: Database, redis_server: RedisServer, query: Query, tmp_path: Path
) -> None:
    def state(job_id: UUID) -> str:
        return client.get(f"/v1/tenants/alpha/jobs/{job_id}").json()["state"]

    with worker(database, redis_server, tmp_path):
        first = put_endpoints(client, 1_001)
        wait_for(lambda: state(first) == "done", tmp_path, seconds=_PATIENCE)
        os.kill(redis_server.pid, signal.SIGKILL)
        redis_server.stop()
        query("DELETE FROM endpoints")
        second = put_endpoints(client, 1_002)
        assert state(second) == "queued"
        redis_server.start()
        wait_for(lambda: state(second) == "done", tmp_path, seconds=_PATIENCE)
    assert query("SELECT count(*) FROM endpoints") == [(1_002,)]
    assert query("SELECT takes FROM jobs WHERE id = %s", second) == [(1,)]


@pytest.mark.long
def test_import_of_a_killed_worker_runs_once_in_the_next(
    client: httpx.Client, database: Database, redis_server: RedisServer, query: Query, tmp_path: Path
) -> None:
    """All processes of the worker are killed after half of 10,000 rows."""
    query("DELETE FROM endpoints")
    assert client.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01"}).status_code == 201
    job_id = put_endpoints(client, 10_000)

    def waits() -> bool:
        waiting = "query LIKE 'INSERT INTO endpoints%%' AND wait_event_type = 'Lock'"
        return query(f"SELECT 1 FROM pg_stat_activity WHERE {waiting}") != []

    # Another transaction adds a row of the middle, so the import waits at this row.
    same = """
INSERT INTO endpoints
SELECT (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid(), 'mac', '02:f0:00:00:13:88'))).*
FROM endpoints e
"""
    with psycopg.connect(database.superuser_url) as other, worker(database, redis_server, tmp_path) as process:
        other.execute(same)
        wait_for(waits, tmp_path, seconds=_PATIENCE)
        os.killpg(process.pid, signal.SIGKILL)
        other.rollback()
    wait_for(lambda: not waits(), tmp_path)
    assert query("SELECT count(*) FROM endpoints") == [(1,)]
    assert query("SELECT state FROM jobs WHERE id = %s", job_id) == [("running",)]
    # The lease of the killed worker has expired.
    query("UPDATE jobs SET due_at = now() WHERE id = %s", job_id)
    is_done = "SELECT 1 FROM jobs WHERE id = %s AND state = 'done'"
    with worker(database, redis_server, tmp_path):
        wait_for(lambda: query(is_done, job_id), tmp_path, seconds=_PATIENCE)
    assert query("SELECT takes, result FROM jobs WHERE id = %s", job_id)[0][0] == 2
    job = client.get(f"/v1/tenants/alpha/jobs/{job_id}").json()
    assert (job["result"]["added"], job["done"], job["total"]) == (10_000, 10_000, 10_000)
    assert query("SELECT count(*), count(DISTINCT mac) FROM endpoints") == [(10_001, 10_001)]
    told = query("SELECT count(*), count(DISTINCT target) FROM audit_log WHERE action = 'endpoint.add'")
    assert told == [(10_001, 10_001)]


def test_retry_and_lost_message_run_the_job(client, database, redis_server, worker_engine, query, tmp_path) -> None:
    def claim_without_sending() -> list[UUID]:
        with session_scope(PlatformScope(), engine=worker_engine) as session:
            return [job.id for job in service.claim_due(session, resend_after=timedelta(seconds=2), most=1)]

    lost = put_endpoints(client, 1_001)
    assert claim_without_sending() == [lost]
    with worker(database, redis_server, tmp_path):
        wait_for(lambda: query("SELECT 1 FROM jobs WHERE state = 'done'") != [], tmp_path, seconds=_PATIENCE)
        assert query("SELECT takes FROM jobs") == [(1,)]
        query("DELETE FROM jobs")
        query("DELETE FROM endpoints")
        query("ALTER TABLE endpoints RENAME TO endpoints_away")
        failing = put_endpoints(client, 1_001)
        wait_for(lambda: query("SELECT 1 FROM jobs WHERE failures = 1") != [], tmp_path, seconds=_PATIENCE)
        query("ALTER TABLE endpoints_away RENAME TO endpoints")
        # Only the message of Celery's retry can run the job in time.
        query("UPDATE jobs SET due_at = now() + interval '1 hour'")
        wait_for(lambda: query("SELECT 1 FROM jobs WHERE state = 'done'") != [], tmp_path, seconds=_PATIENCE)
    assert query("SELECT id, takes, failures FROM jobs") == [(failing, 2, 1)]
    assert query("SELECT count(*) FROM endpoints") == [(1_001,)]


def test_api_works_without_redis_and_the_worker_catches_up(
    client: httpx.Client, database: Database, redis_server: RedisServer, query: Query, make_token, tmp_path: Path
) -> None:
    def is_sealed(mac: str) -> bool:
        return query("SELECT 1 FROM audit_seals s JOIN audit_log a ON a.id = s.entry_id WHERE a.target = %s", mac) != []

    first, second = "00:00:5e:00:53:01", "00:00:5e:00:53:02"
    with worker(database, redis_server, tmp_path):
        assert client.post(ENDPOINTS, json={"mac": first}).status_code == 201
        wait_for(lambda: is_sealed(first), tmp_path)
        os.kill(redis_server.pid, signal.SIGKILL)
        redis_server.stop()
        assert client.get(ENDPOINTS).status_code == 200
        assert client.post(ENDPOINTS, json={"mac": second}).status_code == 201
        # The API checks credentials in the database.
        [(tenant_id,)] = query("SELECT id FROM tenants")
        other = {"Authorization": f"Bearer {make_token(Owner(tenant_id=tenant_id))}"}
        assert client.get("/v1/tenants/alpha/audit", headers=other).status_code == 200
        assert not is_sealed(second)
        redis_server.start()
        wait_for(lambda: is_sealed(second), tmp_path, seconds=60)
