"""Redis is killed under a running API and worker.

Requests succeed, and the worker's tasks wait in the database until Redis runs again.
"""

import os
import signal

import httpx
import psycopg
import pytest

from api.main import create_app
from nac.core.access.grants import Owner
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import make_token as make_token
from tests.factories.certificates import write_master_key
from tests.factories.tenancy import make_tenant
from tests.worker.test_worker import redis_server as redis_server
from tests.worker.test_worker import wait_for, worker

pytestmark = pytest.mark.early


def test_api_works_without_redis_and_the_worker_catches_up(
    database, redis_server, app_engine, platform, make_token, tmp_path, monkeypatch
) -> None:
    tenant_id = TenantId(make_tenant(app_engine, platform, "alpha").id)
    monkeypatch.setenv("ADMIT_MASTER_KEY_FILE", str(write_master_key(tmp_path)))

    def sealed(target: str) -> bool:
        with psycopg.connect(database.superuser_url) as connection:
            found = connection.execute(
                "SELECT count(*) FROM audit_seals s JOIN audit_log a ON a.id = s.entry_id WHERE a.target = %s", [target]
            ).fetchone()
        return found == (1,)

    def add(client: httpx.Client, mac: str) -> None:
        assert client.post("/v1/tenants/alpha/endpoints", json={"mac": mac}).status_code == 201

    app = create_app(settings_of_public(database, tmp_path, ADMIT_REDIS_URL=redis_server.url))
    with worker(database, redis_server, tmp_path), serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {make_token(Owner(tenant_id=tenant_id))}"
        add(client, "00:00:5e:00:53:01")
        wait_for(lambda: sealed("00:00:5e:00:53:01"), tmp_path)
        os.kill(redis_server.pid, signal.SIGKILL)
        redis_server.stop()
        assert client.get("/v1/tenants/alpha/endpoints").status_code == 200
        add(client, "00:00:5e:00:53:02")
        # The API checks credentials in the database.
        other = {"Authorization": f"Bearer {make_token(Owner(tenant_id=tenant_id))}"}
        assert client.get("/v1/tenants/alpha/audit", headers=other).status_code == 200
        assert not sealed("00:00:5e:00:53:02")
        redis_server.start()
        wait_for(lambda: sealed("00:00:5e:00:53:02"), tmp_path, seconds=60)
