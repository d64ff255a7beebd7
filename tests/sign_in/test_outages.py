"""Redis is down and PostgreSQL closes connections. Signed-in users can continue."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from api.main import create_app
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Database
from tests.redis_server import RedisServer
from tests.sign_in.conftest import EMAIL, PASSWORD

NEW = "another horse battery"


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def client(database: Database, tmp_path: Path, redis_server: RedisServer) -> Iterator[httpx.Client]:
    limits = {"ADMIT_API_REQUESTS_PER_MINUTE": "40", "ADMIT_API_FAILURES_PER_MINUTE": "5"}
    settings = settings_of_public(database, tmp_path, ADMIT_REDIS_URL=redis_server.url, **limits)
    with serve_app(create_app(settings)) as client:
        client.timeout = httpx.Timeout(60)
        yield client


def test_signing_in_needs_no_redis(client, browser, ann, redis_server):
    mine = browser()
    mine.sign_in()
    assert client.get("/readyz").json()
    redis_server.stop()
    # With the existing cookie and with a new sign-in, for reads and changes.
    assert mine.good("GET", "/me")["email"] == EMAIL
    assert mine.good("GET", "/me/sign-ins")["items"]
    mine.good("PUT", "/me/password", {"password": NEW})
    other = browser()
    assert other.refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD}) == (401, "sign-in-refused")
    other.sign_in(password=NEW)
    assert other.ask("POST", "/sign-in/forgotten-password", {"email": EMAIL}).status_code == 202
    # The rate limits still count requests by credential, and failures by address.
    assert mine.ask("GET", "/me").headers["ratelimit"].startswith('"credential";r=')
    answers = [mine.ask("GET", "/me").status_code for _ in range(80)]
    assert (answers[0], set(answers)) == (200, {200, 429})
    wrong = [client.get("/v1/me", headers={"Authorization": f"Bearer {number}"}).status_code for number in range(20)]
    assert (wrong[:5], set(wrong)) == ([401] * 5, {401, 429})
    redis_server.start()
    assert other.good("GET", "/me")["email"] == EMAIL


def test_cut_connections_cost_no_request(browser, ann, database, redis_server):
    mine = browser()
    mine.sign_in()
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        for _ in range(3):
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = %s",
                ["admit-api"],
            ).fetchone()
            assert ended is not None
            assert ended[0] > 0
            # Directly after the cut, no connection is old enough for a health check.
            assert mine.good("GET", "/me")["email"] == EMAIL
