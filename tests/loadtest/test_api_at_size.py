"""Searches in millions of decisions: the plans of PostgreSQL suit that number.

Times with 50,000,000 rows are in docs/internals/benchmarks.md (python -m loadtest.api logs).
"""

import shutil
import tempfile
from collections.abc import Iterator

import psycopg
import pytest

from api.main import create_app
from loadtest.api import data_set, plans
from loadtest.api.searches import log_searches
from nac.kit.db import make_engine
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Cluster, Database
from tests.run_depth import is_whole

pytestmark = pytest.mark.early

# Each day has more than 5,000 pages, the size from which an index is faster. The short version has fewer days.
ROWS_OF_DAY, TENANTS = 200_000, 200
DAYS = 50 if is_whole() else 6
_DISK_BYTES = 8 << 30
# Load without a WAL, and without a repeated autovacuum.
_SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "128MB",
}
# A smaller sample than PostgreSQL's default, because a day has fewer rows than in production. With a tenth of the
# default, one run in thirty overestimated a rare user and scanned a day.
_LOADING = "&options=-c%20default_statistics_target%3D40"


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Database, data_set.TenantRows, str]]:
    if shutil.disk_usage(tempfile.gettempdir()).free < _DISK_BYTES:
        pytest.skip(f"{tempfile.gettempdir()} has less than {_DISK_BYTES >> 30} GiB")
    cluster = Cluster(**_SETTINGS)
    try:
        cluster.start()
        database = cluster.create_database("loadtest_api_at_size")
        tenants = data_set.make_tenants(database.superuser_url, TENANTS)
        with psycopg.connect(database.superuser_url) as connection:
            # No search uses this index, and each index takes a tenth of the work.
            connection.execute("DROP INDEX ix_auth_log_tenant_id_certificate_serial_at")
        filling = {"rows": ROWS_OF_DAY * DAYS, "days": DAYS, "different": 2, "has_requests": False}
        data_set.fill_auth_log(database.superuser_url + _LOADING, tenants, log_line=print, **filling)
        engine = make_engine(database.app_url)
        token = data_set.make_platform_token(engine)
        engine.dispose()
        yield database, tenants, token
    finally:
        cluster.remove()


def test_search_of_many_decisions_scans_no_day_sequentially(filled, tmp_path) -> None:
    database, tenants, token = filled
    asked = {}
    app = create_app(settings_of_public(database, tmp_path))
    with serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        for number in (1, TENANTS):
            slug, tenant_id = tenants.slugs[number - 1], TenantId(tenants.ids[number - 1])
            for search in log_searches(slug, number, DAYS):
                asked[slug, search.name] = plans.explain_request(app, client, search.path, tenant_id)
    assert {search: each.scanned for search, each in asked.items() if each.scanned} == {}
