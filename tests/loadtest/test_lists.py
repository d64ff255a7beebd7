"""Every list of the API, with enough rows to show how much PostgreSQL reads for a page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.main import create_app
from cli import openapi
from loadtest.api import data_set, read_costs
from loadtest.api.list_requests import ListRequest, iterate_list_requests
from nac.core.access.grants import Owner
from nac.inventory.endpoints import repository as endpoints
from nac.kit.db import queries
from nac.kit.ids import MspId, TenantId
from nac.models import Job
from nac.sessions import log_search
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Cluster, Database
from tests.shared_engines import dispose_all

pytestmark = pytest.mark.early

_SHARE = 0.03
_LOOKED_THROUGH = 200
# Three statements may read this number of rows. For each row, a page also reads a few rows of other tables.
_MOST_ROWS = 2_000
# Of about 800 rows.
_MOST_OF_A_SITE = 600
# Lists of aggregates, which read all rows.
_OF_ALL = {
    *("listUsage", "listExpiringCertificates", "listPools", "listPoolLeases", "listSecretRotationNases"),
    "listTenantHealth",
}


def _sort_of(asking: ListRequest) -> str:
    return dict(asking.query).get("sort", "")


def _choose_representative() -> Callable[[ListRequest], bool]:
    """Choose each sort order, and each filter with the first order of the list."""
    first: dict[str, str] = {}
    for each in iterate_list_requests(openapi.description()):
        first[each.operation] = first.get(each.operation) or _sort_of(each)

    def is_representative(asking: ListRequest) -> bool:
        is_plain = not dict(asking.query).keys() - {"sort", "limit"}
        return ("limit", "1000") not in asking.query and (is_plain or _sort_of(asking) in ("", first[asking.operation]))

    return is_representative


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    """A new database. Other tests leave log partitions, and each partition makes planning slower."""
    yield cluster.create_database("lists")
    dispose_all()


def test_no_list_reads_more_than_its_limit(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_SCANNED_ROWS", _LOOKED_THROUGH)
    monkeypatch.setattr(endpoints, "_SELECTIVE_LIMIT", _LOOKED_THROUGH)
    monkeypatch.setattr(log_search, "SLICE_ROWS", _LOOKED_THROUGH)
    tenants = data_set.make_tenants(database.superuser_url, 20)
    data_set.fill_lists(database.superuser_url, tenants, share=_SHARE, log_line=lambda _: None, has_days=False)
    app = create_app(settings_of_public(database, tmp_path))
    values = read_costs.read_tenant_values(database.superuser_url, tenants.slugs[0])
    with serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {data_set.make_platform_token(app.state.engine)}"
        found = list(read_costs.measure_read_costs(app, client, [values], _choose_representative()))
        with app.state.engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW plan_cache_mode").scalar() == "force_custom_plan"
    assert len(found) > 200
    read = [
        (each.asking.name, each.rows, sorted(each.scanned))
        for each in found
        if each.asking.operation not in _OF_ALL and (each.rows > _MOST_ROWS or each.scanned)
    ]
    assert read == []
    # A page reads a part of the site's sessions in order, not all of them.
    of_site = [each for each in found if each.asking.operation == "listSessions" and "site" in dict(each.asking.query)]
    assert of_site
    assert [(each.asking.name, each.rows) for each in of_site if each.rows > _MOST_OF_A_SITE] == []


def test_row_ownership_is_checked_by_index() -> None:
    for owner in (Owner(), Owner(MspId("1" * 32)), Owner(tenant_id=TenantId("1" * 32))):
        assert "DISTINCT" not in str(owner.owns(Job))


def test_every_filter_has_values() -> None:
    """A filter without values here fails with its name (KeyError)."""
    asked = list(iterate_list_requests(openapi.description()))
    assert len({each.operation for each in asked}) > 50
