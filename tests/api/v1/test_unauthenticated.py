"""Unauthenticated requests are rejected before the API reads any of the body."""

from itertools import product
from pathlib import Path
from typing import Final

import httpx
import pytest
from sqlalchemy import Engine, text

from api.caller import needs_caller
from api.connections import HttpWithFiles
from api.json_input import MAX_PUBLIC_BODY_BYTES
from api.main import create_app
from api.v1.routers import ROUTES
from nac.accounts.api_tokens import TokenText
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import bearer
from tests.postgres import Database
from tests.statements import counted

ENDPOINTS: Final = "/v1/tenants/alpha/endpoints"
BULK: Final = f"{ENDPOINTS}/bulk"
JSON: Final = {"Content-Type": "application/json"}
_LARGE: Final = b'{"rows": [' + b",".join([b'{"mac": "00:00:5e:00:53:01", "name": "a printer"}'] * 100_000) + b"]}"
_BODIES: Final = {
    "malformed": b"{",
    "not UTF-8": b"\xff",
    "deep": b"[" * 100_000,
    "large": _LARGE,
    "too large": b" " * (17 * 1024 * 1024),
}


def stranger() -> dict[str, str]:
    """A well-formed credential that belongs to no user or token."""
    return bearer(TokenText.make().reveal())


def test_any_body_of_a_stranger_gets_401(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes) -> None:
        raise AssertionError("the body was read")

    monkeypatch.setattr("api.json_input.check_json", fail)
    del api.headers["Authorization"]
    credentials = ({}, {"Authorization": "Bearer nonsense"}, stranger(), {"Cookie": "admit=nonsense"})
    paths = (BULK, ENDPOINTS, f"{ENDPOINTS}/00:00:5e:00:53:01/block")
    asked = [(path, JSON | shown) for path in paths for shown in credentials]
    asked += [(BULK, headers) for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Encoding": "gzip"})]
    for (body, content), (path, headers) in product(_BODIES.items(), asked):
        refused = api.post(path, content=content, headers=headers)
        assert refused.status_code == 401, (body, path, refused.text)
        assert refused.headers["www-authenticate"].startswith("Bearer")


def test_body_to_an_unknown_path_is_not_read(api: httpx.Client) -> None:
    assert api.post("/v1/nothing", content=b"{", headers=JSON).status_code == 404


def test_open_route_accepts_only_small_bodies(api: httpx.Client) -> None:
    del api.headers["Authorization"]
    for path in ("/v1/sign-in", "/v1/sign-up"):
        answers = [api.post(path, content=b" " * octets, headers=JSON) for octets in (MAX_PUBLIC_BODY_BYTES + 1, 10)]
        assert [each.status_code for each in answers] == [413, 422]


def test_every_route_with_a_body_authenticates_or_is_small() -> None:
    open_routes = {route.path for route in ROUTES if route.body_field is not None and not needs_caller(route)}
    assert all(path.startswith(("/v1/sign-in", "/v1/sign-up", "/v1/sign-on")) for path in open_routes), open_routes


def test_known_credential_is_looked_up_only_by_its_route(api: httpx.Client) -> None:
    def statements_of_malformed_body() -> int:
        with counted(Engine) as statements:
            assert api.post(ENDPOINTS, content=b"{", headers=JSON).status_code == 422
        return len(statements)

    assert statements_of_malformed_body() > 0
    assert statements_of_malformed_body() == 0


def test_revoked_credential_is_looked_up_again(api: httpx.Client, owner_engine: Engine) -> None:
    assert api.get(ENDPOINTS).status_code == 200
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE api_tokens SET revoked_at = now()"))
    # The first request reaches the route, which rejects the revoked credential.
    assert api.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01"}).status_code == 401
    assert api.post(ENDPOINTS, content=b"{", headers=JSON).status_code == 401


def test_first_request_counts_once_for_its_owner(
    database: Database, tenant_id: TenantId, msp_token: str, tmp_path: Path
) -> None:
    settings = settings_of_public(database, tmp_path, ADMIT_API_OWNER_REQUESTS_PER_MINUTE="100")
    with serve_app(create_app(settings), http=HttpWithFiles) as client:
        shown = bearer(msp_token)
        answer = client.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01"}, headers=shown)
        assert answer.status_code == 201
        assert answer.headers["ratelimit"].startswith('"owner";r=99;')
