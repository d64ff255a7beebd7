import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from api.main import create_app
from nac.db import MAX_CONNECTIONS
from nac.errors import InUse, NotFound
from nac.settings import Settings, SettingsError, load_settings
from tests.api.served import served
from tests.factories.certificates import write_master_key
from tests.postgres import Database
from tests.redis_server import RedisServer


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


def settings(database_url: str, redis_url: str, folder: Path) -> Settings:
    return load_settings(
        {
            "ADMIT_VAR_DIR": "/nonexistent",
            "ADMIT_DATABASE_URL": database_url,
            "ADMIT_REDIS_URL": redis_url,
            "ADMIT_MASTER_KEY_FILE": str(write_master_key(folder)),
        }
    )


@pytest.fixture
def app(database: Database, redis_server: RedisServer, tmp_path: Path) -> FastAPI:
    return create_app(settings(database.app_url, redis_server.url, tmp_path))


@pytest.fixture
def client(app: FastAPI) -> Iterator[httpx.Client]:
    with served(app) as client:
        yield client


def test_process_that_answers_is_alive(client: httpx.Client):
    reply = client.get("/healthz")
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


def test_migrated_database_makes_ready(client: httpx.Client):
    reply = client.get("/readyz")
    assert (reply.status_code, reply.json()) == (200, {"status": "ready", "redis": "answers"})


def test_all_connections_in_use_do_not_make_unready(app: FastAPI, client: httpx.Client) -> None:
    """A table is locked, say: the database is well, and no balancer takes the process out."""
    with ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            held.enter_context(app.state.engine.connect())
        assert client.get("/readyz").status_code == 200


def test_many_that_probe_while_redis_hangs_keep_nobody_from_it(client: httpx.Client, redis_server: RedisServer) -> None:
    client.get("/readyz")
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(40) as clients:
            answers = list(clients.map(lambda _: client.get("/readyz"), range(40)))
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    assert {(each.status_code, each.json().get("redis")) for each in answers} == {(200, "does not answer")}


def test_redis_away_is_reported_and_not_required(client: httpx.Client, redis_server: RedisServer):
    redis_server.stop()
    reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["redis"]) == (200, "does not answer")
    redis_server.start()
    assert client.get("/readyz").json()["redis"] == "answers"


def test_database_away_is_not_ready_but_alive(tmp_path: Path, redis_server: RedisServer):
    nowhere = settings(f"postgresql://admit_app@/admit?host={tmp_path}", redis_server.url, tmp_path)
    with served(create_app(nowhere)) as client:
        reply = client.get("/readyz")
        assert reply.status_code == 503
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["code"] == "database-unavailable"
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("revision", "code"), [("9999_future", "schema-too-new"), (None, "schema-too-old")])
def test_other_schema_is_not_ready(client: httpx.Client, database: Database, revision: str | None, code: str):
    with psycopg.connect(database.owner_url) as connection:
        before = connection.execute("DELETE FROM alembic_version RETURNING version_num").fetchall()
        if revision:
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (revision,))
    try:
        reply = client.get("/readyz")
    finally:
        with psycopg.connect(database.owner_url) as connection:
            connection.execute("DELETE FROM alembic_version")
            connection.cursor().executemany("INSERT INTO alembic_version VALUES (%s)", before)
    assert (reply.status_code, reply.json()["code"]) == (503, code)
    assert reply.json()["remedy"]


def test_unknown_path_is_a_problem(client: httpx.Client):
    reply = client.get("/nothing/here")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "This path does not exist.",
        "code": "not-found",
        "remedy": "Check its spelling, and remove a trailing slash.",
    }


def test_slash_too_many_leads_nowhere(client: httpx.Client):
    """Least of all to the host that the request names."""
    reply = client.get("/healthz/", headers={"Host": "elsewhere.example"})
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")


def test_wrong_method_is_a_problem_that_names_the_right_one(client: httpx.Client):
    reply = client.post("/healthz")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
    assert reply.json()["code"] == "method-not-allowed"


def test_wrong_method_names_those_of_all_routes_of_the_path(app: FastAPI, client: httpx.Client):
    app.get("/thing/{name}")(lambda name: name)
    app.delete("/thing/{name}")(lambda name: name)
    assert client.post("/thing/a").headers["allow"] == "DELETE, GET, HEAD"


class Body(BaseModel):
    port: int


def _raise(exc: Exception) -> None:
    raise exc


def test_errors_of_ours_are_rendered_with_their_code_and_remedy(app: FastAPI, client: httpx.Client):
    app.get("/gone")(lambda: _raise(NotFound("Tenant 'x' does not exist.", place="slug", remedy="List them.")))
    app.get("/used")(lambda: _raise(InUse("Two sites use it.")))
    assert client.get("/gone").json() == {
        "type": "about:blank",
        "title": "The object does not exist.",
        "status": 404,
        "detail": "Tenant 'x' does not exist.",
        "code": "not-found",
        "place": "slug",
        "remedy": "List them.",
    }
    assert (client.get("/used").status_code, client.get("/used").json()["code"]) == (409, "in-use")


def test_invalid_body_names_every_mistake(app: FastAPI, client: httpx.Client):
    @app.post("/ports")
    def ports(bodies: list[Body]) -> int:
        return len(bodies)

    reply = client.post("/ports", json=[{"port": "x"}, {"port": 1}, {}])
    assert reply.status_code == 422
    assert [mistake["place"] for mistake in reply.json()["mistakes"]] == ["[0].port", "[2].port"]


def test_unforeseen_error_tells_the_caller_nothing_of_it(app: FastAPI, client: httpx.Client):
    app.get("/bug")(lambda: _raise(RuntimeError("password=hunter2")))
    reply = client.get("/bug")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal-error")
    assert "hunter2" not in reply.text


def test_start_without_database_setting_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ADMIT_DATABASE_URL", raising=False)
    monkeypatch.setenv("ADMIT_VAR_DIR", "/nonexistent")
    with pytest.raises(SettingsError, match="ADMIT_DATABASE_URL is required"):
        create_app()
