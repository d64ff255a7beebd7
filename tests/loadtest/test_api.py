"""The benchmark of the API's lists, with few rows. Every search succeeds and reads only its part of the table."""

import itertools

import pytest
from fastapi import FastAPI

from api.main import create_app
from loadtest.api import data_set, http_load, plans
from loadtest.api.searches import log_searches, other_lists
from nac.kit.db import make_engine
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, serve_app_on_port, settings_of_public
from tests.postgres import Cluster, Database

DAYS, ROWS = 40, 4_000


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> tuple[Database, data_set.TenantRows, str]:
    database = cluster.create_database("loadtest_api")
    tenants = data_set.make_tenants(database.superuser_url, 3)
    data_set.fill_auth_log(database.superuser_url, tenants, rows=ROWS, days=DAYS, log_line=print)
    data_set.fill_sessions(database.superuser_url, tenants, rows=300)
    engine = make_engine(database.app_url)
    token = data_set.make_platform_token(engine)
    engine.dispose()
    return database, tenants, token


@pytest.fixture
def app(filled, tmp_path) -> FastAPI:
    return create_app(settings_of_public(filled[0], tmp_path))


def test_searches_of_a_year_read_few_partitions_at_a_time(app: FastAPI, filled) -> None:
    _, tenants, token = filled
    with serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        found = {
            search.name: plans.explain_request(app, client, search.path, TenantId(tenants.ids[0]))
            for search in log_searches(tenants.slugs[0], 1, DAYS)
        }
        lost = [each.path for each in log_searches(tenants.slugs[0], 1, DAYS) if "log began" in each.name]
        page = client.get(lost[0]).json()
        while not page["items"]:
            page = client.get(f"{lost[0]}&after={page['next']}").json()
        assert page["items"][0]["user"] == "lost"
    assert found["newest"].most_partitions < 15
    assert max(asked.statements for asked in found.values()) <= 20


def test_lists_are_requested_by_many_clients_at_once(app: FastAPI, filled) -> None:
    _, tenants, token = filled
    with serve_app_on_port(app) as url:
        port = int(url.rpartition(":")[2])
        for search in other_lists(tenants.slugs[0]):
            left = iter([search.path] * 4)
            timing = http_load.run_load(port, token, lambda left=left: next(left, None), clients=2)
            timing.require_success()
            assert len(timing.milliseconds) == 4
        by_mac = f"/v1/tenants/{tenants.slugs[0]}/sessions?mac={7:012x}"
        timing = http_load.run_load(port, token, itertools.repeat(by_mac).__next__, clients=4, seconds=0.2)
        timing.require_success()
        assert timing.rate > 0
        never = next(each for each in log_searches(tenants.slugs[0], 1, DAYS) if each.name == "a device never seen")
        assert http_load.count_requests_until_found(port, token, never.path, most=50)[0] < 50
