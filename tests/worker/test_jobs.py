"""What was asked for as a job is done once, whatever dies meanwhile: real worker, Redis and PostgreSQL."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.accounts.owners import Owner
from nac.ids import TenantId
from tests.api.served import served, settings_of_public
from tests.api.v1.conftest import make_token as make_token
from tests.factories.certificates import write_master_key
from tests.factories.tenancy import Platform, make_tenant
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.worker.test_worker import redis_server as redis_server
from tests.worker.test_worker import wait_for, worker

pytestmark = pytest.mark.early

Query = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def query(database: Database) -> Query:
    def query(sql: str, *given: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), given)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def client(
    database: Database,
    redis_server: RedisServer,
    app_engine: Engine,
    platform: Platform,
    make_token,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[httpx.Client]:
    tenant_id = TenantId(make_tenant(app_engine, platform, "alpha").id)
    monkeypatch.setenv("ADMIT_MASTER_KEY_FILE", str(write_master_key(tmp_path)))
    app = create_app(settings_of_public(database, tmp_path, ADMIT_REDIS_URL=redis_server.url))
    with served(app) as client:
        client.headers["Authorization"] = f"Bearer {make_token(Owner(tenant_id=tenant_id))}"
        yield client


def put_endpoints(client: httpx.Client, number: int) -> UUID:
    """As a job."""
    items = [{"mac": f"02f0{each:08x}", "name": f"device {each}"} for each in range(number)]
    given = {"operation": "put", "items": items, "allow_random": True}
    answer = client.post("/v1/tenants/alpha/endpoints/bulk", json=given, timeout=60)
    assert answer.status_code == 202, answer.text
    return UUID(answer.json()["id"])


def test_job_waits_while_redis_is_away_and_is_done_after_it(
    client: httpx.Client, database: Database, redis_server: RedisServer, query: Query, tmp_path: Path
) -> None:
    def state(job_id: UUID) -> str:
        return client.get(f"/v1/tenants/alpha/jobs/{job_id}").json()["state"]

    with worker(database, redis_server, tmp_path):
        first = put_endpoints(client, 1_001)
        wait_for(lambda: state(first) == "done", tmp_path)
        os.kill(redis_server.pid, signal.SIGKILL)
        redis_server.stop()
        query("DELETE FROM endpoints")
        second = put_endpoints(client, 1_002)
        assert state(second) == "queued"
        redis_server.start()
        wait_for(lambda: state(second) == "done", tmp_path, seconds=60)
    assert query("SELECT count(*) FROM endpoints") == [(1_002,)]
    assert query("SELECT takes FROM jobs WHERE id = %s", second) == [(1,)]


def test_import_whose_worker_is_killed_is_done_once_by_the_next(
    client: httpx.Client, database: Database, redis_server: RedisServer, query: Query, tmp_path: Path
) -> None:
    """All its processes, in the middle of 10,000 rows: nothing of them stays, and then there are all of them."""
    job_id = put_endpoints(client, 10_000)

    def is_under_way() -> bool:
        return query("SELECT FROM jobs WHERE id = %s AND state = 'running' AND done > 0", job_id) != []

    with worker(database, redis_server, tmp_path) as process:
        wait_for(is_under_way, tmp_path, seconds=60)
        os.killpg(process.pid, signal.SIGKILL)
    assert query("SELECT count(*) FROM endpoints") == [(0,)]
    assert query("SELECT state FROM jobs WHERE id = %s", job_id) == [("running",)]
    # The lease of who died is over.
    query("UPDATE jobs SET due_at = now() WHERE id = %s", job_id)
    with worker(database, redis_server, tmp_path):
        wait_for(lambda: query("SELECT FROM jobs WHERE id = %s AND state = 'done'", job_id) != [], tmp_path, seconds=90)
    assert query("SELECT takes, result FROM jobs WHERE id = %s", job_id)[0][0] == 2
    job = client.get(f"/v1/tenants/alpha/jobs/{job_id}").json()
    assert (job["result"]["added"], job["done"], job["total"]) == (10_000, 10_000, 10_000)
    assert query("SELECT count(*), count(DISTINCT mac) FROM endpoints") == [(10_000, 10_000)]
    assert query("SELECT count(*) FROM audit_log WHERE action LIKE 'endpoint%%'") == [(1,)]
