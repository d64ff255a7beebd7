"""Rate limits, their response headers, and deprecated routes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from api.credential_rate_limit import RateBuckets, hash_credential
from api.main import create_app
from api.response_headers import DeprecationHeaders, deprecated
from nac.core.access.grants import Owner
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import As, MakeToken, bearer
from tests.factories.tenancy import Platform
from tests.postgres import Database

LIST = "/v1/tenants/alpha/endpoints"


Limited = Callable[..., httpx.Client]


@pytest.fixture
def limited(database: Database, tmp_path: Path, tenant_id: TenantId) -> Iterator[Limited]:
    """Start the API with these limits."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(
            serve_app(create_app(settings_of_public(database, tmp_path, **limits)))
        )


@pytest.fixture
def client(limited: Limited) -> httpx.Client:
    return limited(ADMIT_API_REQUESTS_PER_MINUTE="5", ADMIT_API_FAILURES_PER_MINUTE="3")


def test_rate_limited_caller_gets_retry_after(client: httpx.Client, msp_token: str) -> None:
    answers = [client.get(LIST, headers=bearer(msp_token)) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 6
    # A caller with a valid token has its own bucket.
    assert answers[0].headers["ratelimit"].startswith('"source";r=4;t=')
    assert answers[1].headers["ratelimit-policy"] == '"credential";q=5;w=60'
    assert answers[1].headers["ratelimit"].startswith('"credential";r=4;t=')
    refused = client.get(LIST, headers=bearer(msp_token))
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "too-many-requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 12
    assert refused.headers["ratelimit"].startswith('"credential";r=0;t=')
    assert refused.headers["x-request-id"]
    # Other callers, and callers without a credential, have their own buckets.
    assert client.get(LIST).status_code == 401
    assert client.get("/readyz").status_code != 429


def test_guessing_caller_is_blocked_without_locking_out_others(client: httpx.Client, msp_token: str) -> None:
    assert client.get(LIST, headers=bearer(msp_token)).status_code == 200
    guesses = [client.get(LIST, headers=bearer(f"admit_{'a' * 16}_{number:026d}")).status_code for number in range(6)]
    assert guesses == [401] * 3 + [429] * 2 + [429]
    assert client.get(LIST, headers=bearer(msp_token)).status_code == 200


def test_invalid_credential_gets_no_bucket_of_its_own(client: httpx.Client) -> None:
    """A route that does not require a credential does not validate credentials either."""
    shown = [{"Cookie": f"admit={number}"} for number in range(3)] + [bearer(f"x{number}") for number in range(3)]
    answers = [client.get("/sign-up", headers=headers) for headers in shown]
    assert [answer.status_code for answer in answers] == [404] * 5 + [429]
    assert answers[-1].headers["ratelimit"].startswith('"source";r=0;t=')


def test_failures_of_others_do_not_block_new_callers(limited: Limited, msp_token: str) -> None:
    client = limited(ADMIT_API_FAILURES_PER_MINUTE="1")
    assert [client.get(LIST, headers=bearer("admit_stale")).status_code for _ in range(3)] == [401, 429, 429]
    assert client.get(LIST, headers=bearer(msp_token)).status_code == 200


def test_buckets_refill() -> None:
    now = 100.0
    buckets = RateBuckets(60, clock=lambda: now)
    assert [buckets.take("a") for _ in range(61)] == [*map(float, range(59, -1, -1)), -1]
    assert buckets.wait(-1) == 1
    assert buckets.refill(0) == 60
    now += 2.5
    assert buckets.take("a") == 1.5
    assert buckets.take("b") == 59
    now += 10**6
    assert buckets.take("a") == 59


def test_each_credential_has_its_own_bucket() -> None:
    shown = [
        [(b"authorization", b"Bearer a")],
        [(b"authorization", b"Bearer b")],
        [(b"cookie", b"x=1; admit=a")],
        [(b"cookie", b"__Host-admit=a; y=2")],
    ]
    assert len({hash_credential(headers) for headers in shown}) == 4
    assert hash_credential([(b"cookie", b"admit=a; z=3")]) == hash_credential(shown[2])
    assert hash_credential([(b"cookie", b"x=1; admit-device=a")]) is None
    # Ignored headers identify no caller: a credential that a proxy sends for all callers, and cookies next to a token.
    proxied = (b"authorization", b"Basic cHJveHk6")
    assert hash_credential([proxied]) is None
    assert hash_credential([proxied, *shown[2]]) == hash_credential(shown[2])
    assert hash_credential([*shown[2], *shown[0]]) == hash_credential(shown[0])
    assert hash_credential([(b"cookie", b"admit=b"), *shown[2]]) != hash_credential([(b"cookie", b"admit=b")])


def test_deprecated_route_has_headers() -> None:
    app = FastAPI()

    @app.get("/old", **deprecated(since=date(2026, 1, 2), sunset=date(2027, 2, 3)))
    def old(number: int = 0) -> int:
        return number

    @app.get("/new")
    def new() -> int:
        return 1

    app.add_middleware(DeprecationHeaders)
    with serve_app(app) as client:
        for path, status in (("/old", 200), ("/old?number=x", 422)):
            answer = client.get(path)
            assert answer.status_code == status
            assert answer.headers["deprecation"] == "@1767312000"
            assert answer.headers["sunset"] == "Wed, 03 Feb 2027 00:00:00 GMT"
            assert 'rel="deprecation"' in answer.headers["link"]
        assert "sunset" not in client.get("/new").headers
    assert app.openapi()["paths"]["/old"]["get"]["deprecated"] is True


def test_token_has_one_bucket_in_any_header_form(client: httpx.Client, msp_token: str) -> None:
    ways = [bearer(msp_token) | {"Cookie": f"admit=x{number}"} for number in range(2)]
    answers = [client.get(LIST, headers=way) for way in (ways * 4)]
    assert [answer.status_code for answer in answers] == [200] * 6 + [429] * 2
    assert answers[-1].headers["ratelimit"].startswith('"credential";r=0;t=')


def test_tokens_of_one_owner_share_a_bucket(
    limited: Limited, make_token: MakeToken, platform: Platform, as_tenant: As
) -> None:
    shared = limited(ADMIT_API_REQUESTS_PER_MINUTE="5", ADMIT_API_OWNER_REQUESTS_PER_MINUTE="8")
    own = [make_token(Owner(platform.msp_id)) for _ in range(3)]
    answers = [shared.get(LIST, headers=bearer(token)) for token in own for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 8 + [429]
    # The headers describe the bucket with the fewest remaining requests.
    assert [answer.headers["ratelimit"].partition(";t")[0] for answer in answers[:5]] == [
        *('"source";r=4', '"credential";r=4', '"credential";r=3'),
        *('"source";r=3', '"owner";r=3'),
    ]
    refused = answers[-1]
    assert refused.headers["ratelimit-policy"] == '"owner";q=8;w=60'
    assert refused.headers["ratelimit"].startswith('"owner";r=0;t=')
    assert (refused.json()["code"], 1 <= int(refused.headers["retry-after"]) <= 8) == ("too-many-requests", True)
    assert "of all credentials of one owner" in refused.json()["detail"]
    # A tenant of this owner is another owner.
    assert shared.get(LIST, headers=as_tenant()).status_code == 200


def test_varied_spellings_count_for_the_token_owner(limited: Limited, msp_token: str) -> None:
    client = limited(ADMIT_API_OWNER_REQUESTS_PER_MINUTE="8")
    answers = [client.get(LIST, headers=bearer(msp_token) | {"Cookie": f"admit=x{number}"}) for number in range(10)]
    assert [answer.status_code for answer in answers] == [200] * 8 + [429] * 2
    assert answers[-1].headers["ratelimit"].startswith('"owner";r=0;t=')
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_extra_credentials_do_not_charge_another_caller(limited: Limited, msp_token: str, as_tenant: As) -> None:
    client = limited(ADMIT_API_REQUESTS_PER_MINUTE="5")
    mine, others = (who | {"Cookie": "admit=nothing"} for who in (bearer(msp_token), as_tenant()))
    assert client.get(LIST, headers=mine).status_code == 200
    for _ in range(10):
        client.get(LIST, headers=others)
    assert client.get(LIST, headers=mine).status_code == 200
