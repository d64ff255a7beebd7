"""Probes of the API process, and the form of its errors."""

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
from nac.kit.db import MAX_CONNECTIONS
from nac.kit.errors import InUse, NotFound
from nac.kit.settings import Settings, SettingsError, load_settings
from tests.api.app_server import serve_app
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
    with serve_app(app) as client:
        yield client


def test_running_process_is_live_and_ready(client: httpx.Client) -> None:
    for path, told in (("/healthz", {"status": "alive"}), ("/readyz", {"status": "ready", "redis": "answers"})):
        got, head = client.get(path), client.head(path)
        assert (got.status_code, got.json()) == (200, told)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]
        # The client would read a body as the next response.
        assert client.get(path).json() == told


def test_exhausted_connections_do_not_affect_readiness(app: FastAPI, client: httpx.Client) -> None:
    """A locked table can exhaust the connections.

    The database is healthy, so the load balancer must keep the process.
    """
    with ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            held.enter_context(app.state.engine.connect())
        assert client.get("/readyz").status_code == 200


def test_redis_hang_and_outage_are_reported_but_still_ready(client: httpx.Client, redis_server: RedisServer) -> None:
    client.get("/readyz")
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(40) as clients:
            answers = list(clients.map(lambda _: client.get("/readyz"), range(40)))
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    redis_server.stop()
    answers.append(client.get("/readyz"))
    assert {(each.status_code, each.json().get("redis")) for each in answers} == {(200, "does not answer")}
    redis_server.start()
    assert client.get("/readyz").json()["redis"] == "answers"


def test_database_outage_is_live_but_not_ready(tmp_path: Path, redis_server: RedisServer):
    nowhere = settings(f"postgresql://admit_app@/admit?host={tmp_path}", redis_server.url, tmp_path)
    with serve_app(create_app(nowhere)) as client:
        reply = client.get("/readyz")
        assert reply.status_code == 503
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["code"] == "database-unavailable"
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("revision", "code"), [("9999_future", "schema-too-new"), (None, "schema-too-old")])
def test_other_schema_version_is_not_ready(client: httpx.Client, database: Database, revision: str | None, code: str):
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


def test_unknown_path_returns_a_problem(client: httpx.Client) -> None:
    reply = client.get("/nothing/here")
    assert reply.headers["content-type"] == "application/problem+json"
    told = {"title": "Not Found", "status": 404, "detail": "This path does not exist.", "code": "not-found"}
    remedy = "Check the spelling of the path, and remove a trailing slash."
    assert reply.json() == {"type": "about:blank", "remedy": remedy, **told}
    # A trailing slash does not redirect, in particular not to the host name in the request.
    assert client.get("/healthz/", headers={"Host": "elsewhere.example"}).json() == reply.json()


def test_wrong_method_returns_a_problem_with_allow(app: FastAPI, client: httpx.Client) -> None:
    app.get("/thing/{name}")(lambda name: name)
    app.delete("/thing/{name}")(lambda name: name)
    for path, methods in (("/healthz", "GET, HEAD"), ("/thing/a", "DELETE, GET")):
        reply = client.post(path)
        assert (reply.status_code, reply.headers["allow"], reply.json()["code"]) == (405, methods, "method-not-allowed")


class Body(BaseModel):
    port: int


def _raise(exc: Exception) -> None:
    raise exc


def test_domain_errors_have_a_code_and_a_remedy(app: FastAPI, client: httpx.Client):
    app.get("/gone")(lambda: _raise(NotFound("Tenant 'x' does not exist.", place="slug", remedy="List them.")))
    app.get("/used")(lambda: _raise(InUse("Two sites use it.")))
    given = {"detail": "Tenant 'x' does not exist.", "place": "slug", "remedy": "List them."}
    about = {"type": "about:blank", "title": "The object does not exist.", "status": 404, "code": "not-found"}
    assert client.get("/gone").json() == about | given
    assert (client.get("/used").status_code, client.get("/used").json()["code"]) == (409, "in-use")


def test_invalid_body_lists_every_error(app: FastAPI, client: httpx.Client):
    @app.post("/ports")
    def ports(bodies: list[Body]) -> int:
        return len(bodies)

    reply = client.post("/ports", json=[{"port": "x"}, {"port": 1}, {}])
    assert reply.status_code == 422
    assert [mistake["place"] for mistake in reply.json()["mistakes"]] == ["[0].port", "[2].port"]


def test_unexpected_error_reveals_no_details(app: FastAPI, client: httpx.Client):
    app.get("/bug")(lambda: _raise(RuntimeError("password=hunter2")))
    reply = client.get("/bug")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal-error")
    assert "hunter2" not in reply.text


def test_start_without_database_setting_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ADMIT_DATABASE_URL", raising=False)
    monkeypatch.setenv("ADMIT_VAR_DIR", "/nonexistent")
    with pytest.raises(SettingsError, match="ADMIT_DATABASE_URL is not set"):
        create_app()
