"""A locked table blocks more requests than the API has threads. The other requests are rejected in time."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import UUID

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from api import thread_limits
from api.application_state import MAX_DEVICE_REQUESTS, MAX_LINK_REQUESTS, MAX_THREADS
from api.connections import HttpWithFiles
from api.enrolment import main as enrolment
from api.main import create_app
from api.public import main as public
from nac.certificates.enrolment.service import EnrolmentSecretText
from nac.core.access.grants import Owner
from nac.kit.ids import TenantId
from nac.kit.settings import Settings
from tests.api.app_server import serve_app, serve_app_on_port, settings_of_public
from tests.api.v1.conftest import bearer
from tests.factories.tenancy import make_tenant
from tests.polling import until
from tests.postgres import Database

Ask = Callable[[httpx.Client, int], httpx.Response]
Refused = set[tuple[int, str, str]]

ENDPOINTS: Final = "/v1/tenants/alpha/endpoints"
_CLIENTS: Final = 64
_PROBLEM, _PAGE, _TEXT = "application/problem+json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
_FULL: Final = "All connections to the database are in use."


_WAIT: Final = "ADMIT_API_DATABASE_WAIT_SECONDS"
Build = Callable[..., FastAPI]


@pytest.fixture
def build(database: Database, tmp_path: Path) -> Build:
    """Create an application. A request waits briefly for a thread, and then without a limit for a connection."""

    def build(make: Callable[[Settings], FastAPI], **changes: object) -> FastAPI:
        app = make(replace(settings_of_public(database, tmp_path, **{_WAIT: "60"}), **changes))
        app.state.settings = settings_of_public(database, tmp_path, **{_WAIT: "0.3"})
        return app

    return build


@pytest.fixture
def app(build: Build) -> FastAPI:
    return build(create_app)


@pytest.fixture
def of_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one token represent many owners."""
    monkeypatch.setattr(thread_limits, "MAX_OWNER_REQUESTS", _CLIENTS)


@contextmanager
def held_up(
    client: httpx.Client, database: Database, table: str, ask: Ask, *, served_most: int
) -> Iterator[tuple[set[Future[httpx.Response]], list[httpx.Response]]]:
    """Lock the table. Returns the number of requests served after the lock, and the responses to the others."""
    with psycopg.connect(database.superuser_url) as other, ThreadPoolExecutor(_CLIENTS) as clients:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        asked = {clients.submit(ask, client, number) for number in range(_CLIENTS)}
        refused: list[httpx.Response] = []
        try:
            while len(asked) > served_most:
                done, asked = wait(asked, timeout=20, return_when=FIRST_COMPLETED)
                assert done, f"{len(asked)} still wait"
                refused += [each.result() for each in done]
            yield asked, refused
        finally:
            other.rollback()


def distinct_errors(refused: list[httpx.Response]) -> Refused:
    assert all(_FULL in each.text for each in refused), {each.text[-300:] for each in refused}
    return {(each.status_code, each.headers["content-type"], each.headers["retry-after"]) for each in refused}


@pytest.mark.usefixtures("of_one_owner")
@pytest.mark.parametrize(
    ("ask", "good"),
    [
        pytest.param(lambda api, _: api.get(ENDPOINTS), 200, id="GET"),
        pytest.param(
            lambda api, number: api.post(ENDPOINTS, json={"mac": f"00:00:5e:00:53:{number:02x}"}), 201, id="POST"
        ),
    ],
)
def test_requests_without_a_thread_are_rejected_in_time(app, database, tenant_id, msp_token, ask, good) -> None:
    with serve_app(app, http=HttpWithFiles) as client:
        client.headers.update(bearer(msp_token))
        client.get(ENDPOINTS)
        with held_up(client, database, "endpoints", ask, served_most=MAX_THREADS) as (asked, refused):
            assert distinct_errors(refused) == {(503, _PROBLEM, "5")}
        assert [each.result().status_code for each in asked] == [good] * MAX_THREADS
        assert client.get(ENDPOINTS).status_code == 200


def test_requests_waiting_for_a_lock_time_out(
    database: Database, tmp_path: Path, tenant_id: TenantId, msp_token: str
) -> None:
    app = create_app(settings_of_public(database, tmp_path, **{_WAIT: "0.3"}))
    with serve_app(app) as client, psycopg.connect(database.superuser_url) as other:
        client.headers.update(bearer(msp_token))
        assert client.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01"}).status_code == 201
        other.execute("SELECT FROM endpoints FOR UPDATE")
        refused = client.post(f"{ENDPOINTS}/00:00:5e:00:53:01/block")
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "held-up", "5")
        other.rollback()
        assert client.post(f"{ENDPOINTS}/00:00:5e:00:53:01/block").status_code == 200


def test_exhausted_page_slots_reject_only_pages(app: FastAPI, database: Database, tenant_id: TenantId) -> None:
    with serve_app(app) as client:
        company = "/sign-in/company?name=alpha"
        with held_up(client, database, "tenants", lambda c, _: c.get(company), served_most=MAX_THREADS) as (
            asked,
            refused,
        ):
            assert distinct_errors(refused) == {(503, _PAGE, "5")}
            for method, path, status in (
                ("GET", "/healthz", 200),
                ("GET", "/sign-in", 200),
                ("GET", "/new-password", 200),
                ("GET", "/nothing", 404),
                ("DELETE", "/sign-in", 405),
                ("GET", ENDPOINTS, 401),
                ("POST", f"{ENDPOINTS}/bulk", 401),
                ("GET", "/sign-in/company?name=%00", 422),
            ):
                assert client.request(method, path).status_code == status, path
            json = {"Content-Type": "application/json"}
            large = client.post(f"{ENDPOINTS}/bulk", content=b'["' + 100_000 * b"x", headers=json)
            assert large.json()["code"] == "not-signed-in"
            assert not any(each.done() for each in asked)
        assert {each.result().status_code for each in asked} == {404}
        assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("make", "public_url", "device"),
    [
        pytest.param(public.create_app, "http://127.0.0.1", f"/crl/{UUID(int=1)}.crl", id="public"),
        pytest.param(enrolment.create_app, "http://pki.example", "/.well-known/est/nobody/cacerts", id="enrolment"),
    ],
)
def test_links_leave_threads_to_devices(build: Build, database: Database, make, public_url: str, device: str) -> None:
    link = f"/enrol/{EnrolmentSecretText.make().reveal()}"
    with (
        serve_app(build(make, public_url=public_url, connections_per_source=0)) as client,
        held_up(client, database, "enrolment_secrets", lambda c, _: c.get(link), served_most=MAX_LINK_REQUESTS) as (
            asked,
            refused,
        ),
    ):
        assert distinct_errors(refused) == {(503, _PAGE, "5")}
        # Some threads and connections remain free.
        assert [client.get(path).status_code for path in ("/healthz", "/nothing", device)] == [200, 404, 404]
        assert not any(each.done() for each in asked)


@pytest.mark.parametrize(
    ("make", "path", "table", "content_type"),
    [
        pytest.param(public.create_app, f"/crl/{UUID(int=1)}.crl", "revocation_lists", _PROBLEM, id="CRL"),
        pytest.param(
            public.create_app, "/scep/alpha?operation=GetCACert", "certificate_authorities", _PROBLEM, id="SCEP"
        ),
        pytest.param(
            enrolment.create_app, "/.well-known/est/alpha/cacerts", "certificate_authorities", _TEXT, id="EST"
        ),
    ],
)
def test_devices_without_a_thread_do_not_block_links(
    build: Build, database: Database, alpha, make, path: str, table: str, content_type: str
) -> None:
    public_url = "http://127.0.0.1" if make is public.create_app else "http://pki.example"
    with serve_app(build(make, public_url=public_url, connections_per_source=0)) as client:
        with held_up(client, database, table, lambda c, _: c.get(path), served_most=MAX_DEVICE_REQUESTS) as (
            asked,
            refused,
        ):
            assert distinct_errors(refused) == {(503, content_type, "5")}
            assert client.get("/healthz").status_code == 200
        assert len({each.result().status_code for each in asked}) == 1
        assert client.get(f"/enrol/{EnrolmentSecretText.make().reveal()}").status_code == 404


def test_slow_forms_take_no_slots(build: Build) -> None:
    """This holds even for an invalid link."""
    app = build(public.create_app, public_url="http://127.0.0.1", connections_per_source=0)
    link = f"/enrol/{EnrolmentSecretText.make().reveal()}"
    with serve_app_on_port(app) as url, ExitStack() as slow:
        port = int(url.rpartition(":")[2])
        for _ in range(2 * MAX_LINK_REQUESTS):
            client = slow.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(f"POST {link} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n".encode())
        assert httpx.get(f"{url}{link}").status_code == 404


def test_waiting_requests_of_an_owner_block_no_other(
    database, app_engine, platform, tenant_id, make_token, tmp_path
) -> None:
    """Each request waits for a lock and holds a connection. Without a limit, 10 of them would use up the pool."""
    other_id = TenantId(make_tenant(app_engine, platform, "beta").id)
    own, other = (bearer(make_token(Owner(tenant_id=each))) for each in (tenant_id, other_id))
    with serve_app(create_app(settings_of_public(database, tmp_path)), http=HttpWithFiles) as client:
        one = f"{ENDPOINTS}/00:00:5e:00:53:01"
        assert client.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:01"}, headers=own).status_code == 201
        assert client.get("/v1/tenants/beta", headers=other).status_code == 200
        with psycopg.connect(database.superuser_url) as locking, ThreadPoolExecutor(_CLIENTS) as clients:
            locking.execute("SELECT FROM endpoints FOR UPDATE")
            waiting = {clients.submit(client.patch, one, json={"name": "x"}, headers=own) for _ in range(_CLIENTS)}
            in_locks = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            with psycopg.connect(database.superuser_url, autocommit=True) as looking:
                until(
                    lambda: looking.execute(in_locks).fetchone() == (thread_limits.MAX_OWNER_REQUESTS,),
                    "requests that wait",
                )
            for number in range(1, 11):
                added = client.post("/v1/tenants/beta/endpoints", json={"mac": f"0000{number:08x}"}, headers=other)
                assert added.status_code == 201, added.text
                assert client.get("/v1/tenants/beta/endpoints", headers=other).status_code == 200
                assert added.elapsed.total_seconds() < 2
            locking.rollback()
            assert {each.result().status_code for each in waiting} <= {200, 503}
