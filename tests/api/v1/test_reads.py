"""Each read request checks its caller, and uses one connection at a time."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine, event, update

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import get_process_engine
from nac.models import ApiToken
from tests.api.v1.conftest import bearer
from tests.factories.tenancy import Platform
from tests.statements import counted

ALPHA = "/v1/tenants/alpha"
ASKED = (
    f"{ALPHA}/endpoints",
    f"{ALPHA}/endpoints?limit=1",
    f"{ALPHA}/endpoints?limit=0",
    f"{ALPHA}/endpoints?limit=1&limit=2",
    f"{ALPHA}/endpoints?limit=",
    f"{ALPHA}/endpoints?limit=one&sort=nothing&seen_since=then",
    f"{ALPHA}/endpoints?status=active&status=blocked",
    f"{ALPHA}/endpoints?status=active&status=nonsense",
    f"{ALPHA}/endpoints?random=false&sort=-name&text=%C3%A4",
    f"{ALPHA}/endpoints?after=nowhere",
    f"{ALPHA}/endpoints?stauts=active",
    f"{ALPHA}/endpoints?stauts=active&limit=0",
    f"{ALPHA}/endpoints/00-00-5E-00-53-01",
    f"{ALPHA}/endpoints/00-00-5E-00-53-99",
    f"{ALPHA}/sessions?ended=true&address=10.0.0.0/8",
    f"{ALPHA}/sessions?address=nowhere",
    f"{ALPHA}/sessions?site=nowhere",
    f"{ALPHA}/sessions/17",
    f"{ALPHA}/sessions/seventeen",
    f"{ALPHA}/decisions?verdict=permit&rejects=true",
    f"{ALPHA}/decisions?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
    f"{ALPHA}/sites/main",
    f"{ALPHA}/roles",
    "/v1/tenants/nobody/endpoints?limit=0",
    "/v1/tenants/nobody/endpoints",
    "/v1/msps/acme/tenants?limit=1",
    "/v1/platform/msps",
    "/v1/tenants",
    "/v1/tenants?msp=acme&limit=1",
    "/v1/grants",
)


@pytest.fixture
def some(api: httpx.Client) -> None:
    for last in (1, 2, 3):
        mac = f"00:00:5e:00:53:0{last}"
        assert api.post(f"{ALPHA}/endpoints", json={"mac": mac, "name": f"Ä {last}"}).status_code == 201


def test_lookup_takes_two_statements(api: httpx.Client, some: None) -> None:
    path = f"{ALPHA}/sessions?user=nobody"
    # The first request updates the time of the token's last use.
    assert api.get(path).status_code == 200
    with counted(get_process_engine()) as statements:
        assert api.get(path).status_code == 200
    assert len(statements) == 2, statements


def test_read_holds_one_connection_and_returns_it(api: httpx.Client, some: None) -> None:
    engine, held = get_process_engine(), []

    def note(*_: object) -> None:
        held.append(engine.pool.checkedout())  # type: ignore[attr-defined]

    event.listen(engine, "before_cursor_execute", note)
    try:
        for path in ASKED:
            api.get(path)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert set(held) == {1}
    note()
    assert held[-1] == 0


def test_caller_is_checked_on_each_request(
    api: httpx.Client, make_token, platform: Platform, owner_engine: Engine
) -> None:
    token = make_token(Owner(platform.msp_id))
    headers = bearer(token)
    path = f"{ALPHA}/endpoints"
    assert [api.get(path, headers=headers).status_code for _ in range(2)] == [200, 200]
    of_token = update(ApiToken).where(ApiToken.public_id == token.split("_")[1])
    for values, status in (
        ({"permissions": ["site.read"]}, 403),
        ({"permissions": ["endpoint.read"]}, 200),
        ({"expires_at": utc_now() - timedelta(seconds=1)}, 401),
        ({"expires_at": utc_now() + timedelta(days=1)}, 200),
        ({"revoked_at": utc_now()}, 401),
    ):
        with owner_engine.begin() as connection:
            connection.execute(of_token.values(**values))
        assert api.get(path, headers=headers).status_code == status
