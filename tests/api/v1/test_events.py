"""Event streams over a real Redis. The tests write entries as agents do."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import redis
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import nac.logs.events.live_stream
from api import event_stream
from api.main import create_app
from api.v1 import events as event_routes
from nac.accounts.sign_in.secret_texts import SignInText
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.logs.events import accounting as accounting_events
from nac.logs.events import authentication
from nac.logs.events.document import Event, to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.live_stream import MAX_ENTRIES, build_entry, events_key
from nac.models import Membership, Person, SignIn
from tests.agent.journal_records import AT, auth
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import As, bearer
from tests.factories.tenancy import make_tenant
from tests.polling import until
from tests.postgres import Database
from tests.redis_server import RedisServer

TENANT = "/v1/tenants/alpha/events"
ALL = "/v1/events"


class _Tenant:
    """Tenant with the fields that `auth` reads."""

    slot = 0

    def __init__(self, tenant_id: TenantId) -> None:
        self.id = tenant_id


class Agent:
    """Writes entries like an agent."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._next: dict[TenantId, int] = {}

    def write(self, tenant_id: TenantId, *events: Event, writer: str = "writer") -> None:
        first = self._next.get(tenant_id, 0)
        self._next[tenant_id] = first + len(events)
        with redis.Redis.from_url(self._server.url) as client:
            entry = build_entry(writer, first, [to_json(each) for each in events])
            client.xadd(events_key(tenant_id), entry, maxlen=MAX_ENTRIES, approximate=False)

    def write_named(self, tenant_id: TenantId, *names: str, slug: str = "alpha") -> None:
        self.write(tenant_id, *(decision(tenant_id, slug, identity=name) for name in names))


def decision(tenant_id: TenantId, slug: str = "alpha", **values: Any) -> Event:
    record = auth(_Tenant(tenant_id), **values)
    return authentication.from_record(record, number=1, tenant=EventTenant(str(tenant_id), slug))


class Stream:
    """Reads a stream in a thread, and stores its messages."""

    def __init__(self, client: httpx.Client, path: str, headers: dict[str, str], **query: Any) -> None:
        self.messages: list[dict[str, str]] = []
        self.comments = 0
        self.headers: httpx.Headers = httpx.Headers()
        self.last_id = ""
        self.is_over = threading.Event()
        self._closing = False
        self._request = client.build_request("GET", path, headers=headers, params=query)
        self._client = client
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            response = self._client.send(self._request, stream=True)
            try:
                assert response.status_code == 200, response.read()
                self.headers = response.headers
                self._read(response)
            finally:
                response.close()
        except httpx.TransportError:
            # The server closed the connection.
            pass
        finally:
            self.is_over.set()

    def _read(self, response: httpx.Response) -> None:
        message: dict[str, str] = {}
        for line in response.iter_lines():
            if self._closing:
                return
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                message[name] = value
            else:
                self.last_id = message.get("id", self.last_id)
                if "data" in message:
                    self.messages.append(message)
                message = {}

    def __enter__(self) -> "Stream":
        self._thread.start()
        until(lambda: self.comments or self.is_over.is_set(), "the stream began")
        assert not self.is_over.is_set()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(each["data"]) for each in self.messages if each["event"] != "notice"]

    @property
    def users(self) -> list[str]:
        return [each["user"]["name"] for each in self.events]

    @property
    def notices(self) -> list[dict[str, Any]]:
        return [json.loads(each["data"]) for each in self.messages if each["event"] == "notice"]

    def wait_users(self, *names: str) -> None:
        until(lambda: len(self.users) >= len(names), f"{names}: {self.messages}")
        assert self.users == list(names)

    def wait_notice(self, kind: str) -> dict[str, Any]:
        until(lambda: any(each["notice"] == kind for each in self.notices), f"{kind}: {self.notices}")
        return next(each for each in self.notices if each["notice"] == kind)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_BLOCK_SECONDS": 0.1, "_RETRY_SECONDS": 0.1, "_TIMEOUT_SECONDS": 0.5}.items():
        monkeypatch.setattr(nac.logs.events.live_stream, name, value)
    # The comments also end the reading of a stream.
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr(event_stream, "CHECK_SECONDS", 0.3)


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def agent(redis_server: RedisServer) -> Agent:
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return Agent(redis_server)


@contextmanager
def _serve(database: Database, folder: Path, server: RedisServer) -> Iterator[httpx.Client]:
    app = create_app(settings_of_public(database, folder, ADMIT_REDIS_URL=server.url))
    with serve_app(app) as client:
        yield client


@pytest.fixture
def live(database: Database, tmp_path: Path, redis_server: RedisServer) -> Iterator[httpx.Client]:
    with _serve(database, tmp_path, redis_server) as client:
        yield client


@pytest.fixture
def reader(as_tenant: As) -> dict[str, str]:
    return as_tenant("log.read")


def test_message_has_position_kind_and_event(live, agent, tenant_id, reader) -> None:
    with Stream(live, TENANT, reader) as stream:
        agent.write(tenant_id)
        assert stream.wait_notice("listening") == {"notice": "listening", "tenant": "alpha"}
        agent.write_named(tenant_id, "anna\r\ndata: x")
        until(lambda: stream.events, "an event")
        until(lambda: stream.comments > 3, "comments of an idle stream")
    event = decision(tenant_id, identity="anna\r\ndata: x")
    (message,) = (each for each in stream.messages if each["event"] != "notice")
    assert (message["event"], message["data"]) == ("authentication", to_json(event).decode())
    assert stream.last_id > message["id"] > ""
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
    assert "x-request-id" in stream.headers
    assert "content-length" not in stream.headers


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ({}, ["anna", "bert", "carl", "anna"]),
        ({"kind": "accounting"}, ["anna"]),
        ({"kind": ["accounting", "authentication"], "user": "ANNA"}, ["anna", "anna"]),
        ({"rejects": "true"}, ["carl"]),
        ({"verdict": "quarantine"}, ["bert"]),
        ({"mac": "aa:bb:cc:dd:ee:02"}, ["bert"]),
        ({"nas": "switch-1"}, ["anna"]),
        ({"nas": "Second floor"}, ["bert"]),
        ({"site": "branch"}, ["carl"]),
        ({"nas": "192.0.2.7", "rejects": "true", "user": "anna"}, []),
    ],
)
def test_filters_select_events(live, agent, tenant_id, as_tenant, msp_token, query, users) -> None:
    manager = bearer(msp_token)
    nas = live.post("/v1/tenants/alpha/nases", headers=manager, json={"name": "Second floor", "identifier": "sw-2"})
    site = live.post("/v1/tenants/alpha/sites", headers=manager, json={"slug": "branch"})
    events = [
        decision(tenant_id, mac="aabbccddee01", identity="anna", nas_identifier="switch-1"),
        decision(
            tenant_id,
            mac="aabbccddee02",
            identity="bert",
            verdict="quarantine",
            nas_identifier="",
            nas_id=nas.json()["id"],
        ),
        decision(
            tenant_id,
            mac="aabbccddee03",
            identity="carl",
            permitted=False,
            nas_identifier="",
            site_id=site.json()["id"],
        ),
        accounting_events.from_record(
            accounting_events.AccountingRequest(
                AT, None, None, "192.0.2.7", "Start", "s1", "aabbccddee01", "anna", None, None, None, "", ()
            ),
            number=1,
            tenant=EventTenant(str(tenant_id), "alpha"),
        ),
    ]
    with Stream(live, TENANT, as_tenant("log.read"), **query) as stream:
        agent.write(tenant_id, *events)
        stream.wait_notice("listening")
        stream.wait_users(*users)


def test_sampled_stream_reports_omitted_events(live, agent, tenant_id, reader) -> None:
    with Stream(live, TENANT, reader, most_per_second=10) as stream:
        for _ in range(10):
            agent.write(tenant_id, *[decision(tenant_id, identity="anna")] * 50)
        until(lambda: sum(each.get("count", 0) for each in stream.notices) + len(stream.events) == 500, "all events")
    assert {each["notice"] for each in stream.notices} == {"listening", "sampled"}
    assert sum(each.get("shown", 0) for each in stream.notices) <= len(stream.events) <= 30


def test_resumed_stream_continues_after_its_position(live, agent, tenant_id, reader) -> None:
    with Stream(live, TENANT, reader) as stream:
        agent.write_named(tenant_id, "anna")
        stream.wait_users("anna")
        until(lambda: stream.last_id.startswith("1"), "a position")
    agent.write_named(tenant_id, "bert", "carl")
    with Stream(live, TENANT, reader, after=stream.last_id) as resumed:
        resumed.wait_users("bert", "carl")
    with Stream(live, TENANT, reader | {"Last-Event-ID": stream.last_id}, after="1-1") as resumed:
        resumed.wait_users("bert", "carl")
        assert [each["notice"] for each in resumed.notices] == ["listening"]
    for _ in range(MAX_ENTRIES):
        agent.write_named(tenant_id, "dora")
    with Stream(live, TENANT, reader, after=stream.last_id) as late:
        assert late.wait_notice("left-out") == {"notice": "left-out", "tenant": "alpha"}
        until(lambda: len(late.users) == MAX_ENTRIES, "the kept events")


def test_stream_of_tenants_resumes_without_gaps(live, agent, tenant_id, platform, app_engine, as_msp) -> None:
    bravo = make_tenant(app_engine, platform, "bravo").id
    reader = as_msp("log.read")
    with Stream(live, ALL, reader) as stream:
        agent.write_named(tenant_id, "anna")
        agent.write_named(bravo, "bert", slug="bravo")
        until(lambda: len(stream.users) == 2, "two events")
        written_at = time.time() * 1_000

        def has_passed() -> bool:
            agent.write(bravo)
            agent.write(tenant_id)
            return int(stream.last_id or 0) > written_at

        until(has_passed, "a position after these events")
    agent.write_named(tenant_id, "carl")
    agent.write_named(bravo, "dora", slug="bravo")
    with Stream(live, ALL, reader, after=stream.last_id) as resumed:
        until(lambda: {"carl", "dora"} <= set(resumed.users), "the missed events")
        assert {each["notice"] for each in resumed.notices} == {"listening"}
    with Stream(live, ALL, reader, after="1000") as late:
        assert late.wait_notice("left-out") == {"notice": "left-out"}


def test_stream_has_only_tenants_with_the_permission(
    live, agent, tenant_id, platform, app_engine, as_tenant, as_msp, make_token
) -> None:
    bravo = make_tenant(app_engine, platform, "bravo").id
    with (
        Stream(live, ALL, as_tenant("log.read")) as own,
        Stream(live, ALL, as_msp("log.read")) as both,
        Stream(live, ALL, as_msp("log.read"), tenant=["bravo"]) as chosen,
        Stream(live, ALL, as_msp("log.read"), msp="other") as nothing,
    ):
        agent.write_named(tenant_id, "anna")
        agent.write_named(bravo, "bert", slug="bravo")
        until(lambda: len(both.users) == 2, "both events")
        chosen.wait_users("bert")
        own.wait_users("anna")
        assert chosen.wait_notice("listening")["tenant"] == "bravo"
    assert nothing.messages == []
    foreign = as_tenant("log.read")
    assert live.get("/v1/tenants/bravo/events", headers=foreign).json()["code"] == "tenant-not-found"
    assert live.get(ALL, headers=foreign, params={"tenant": "bravo"}).json()["code"] == "tenant-not-found"
    for path in (TENANT, ALL):
        refused = live.get(path, headers=as_tenant("site.read"))
        assert (refused.status_code, refused.json()["code"]) == (403, "permission-missing")


def test_new_tenant_joins_the_stream(live, agent, platform, app_engine, as_msp, tenant_id) -> None:
    with Stream(live, ALL, as_msp("log.read")) as stream:
        bravo = make_tenant(app_engine, platform, "bravo").id

        def has_joined() -> bool:
            agent.write_named(bravo, "bert", slug="bravo")
            return bool(stream.events)

        until(has_joined, "an event of the new tenant")


@pytest.mark.parametrize("path", [TENANT, ALL])
def test_revoked_token_ends_the_stream(live, agent, owner_engine: Engine, reader, path) -> None:
    with Stream(live, path, reader) as stream:
        with owner_engine.begin() as connection:
            connection.execute(text("UPDATE api_tokens SET revoked_at = now() WHERE tenant_id IS NOT NULL"))
        assert stream.is_over.wait(10)
    assert live.get(path, headers=reader).status_code == 401


def test_streams_of_a_person_follow_their_permissions(
    live, agent, tenant_id, platform, app_engine, owner_engine
) -> None:
    bravo = make_tenant(app_engine, platform, "bravo").id
    person_id, sign_in, until_at = uuid4(), SignInText.make(), utc_now() + timedelta(days=1)
    with Session(owner_engine) as session, session.begin():
        session.add(Person(id=person_id, email="ann@acme.example", name="ann"))
        session.flush()
        member = {"person_id": person_id, "role": "auditor", "created_by": "test"}
        session.add_all(Membership(tenant_id=each, **member) for each in (tenant_id, bravo))
        signed_in = {"public_id": sign_in.public_id, "secret_sha256": sign_in.digest(), "factors": ["password"]}
        session.add(SignIn(person_id=person_id, expires_at=until_at, last_seen_at=utc_now(), **signed_in))
    cookie = {"Cookie": f"admit={sign_in.reveal()}"}
    with Stream(live, ALL, cookie) as stream, Stream(live, "/v1/tenants/bravo/events", cookie) as lost:
        agent.write_named(tenant_id, "anna")
        agent.write_named(bravo, "bert", slug="bravo")
        until(lambda: set(stream.users) == {"anna", "bert"}, "events of both tenants")
        with owner_engine.begin() as connection:
            connection.execute(text("DELETE FROM memberships WHERE tenant_id = :id"), {"id": bravo})
        assert lost.is_over.wait(10)

        def is_removed() -> bool:
            before, carls = stream.users.count("bert"), stream.users.count("carl")
            agent.write_named(bravo, "bert", slug="bravo")
            agent.write_named(tenant_id, "carl")
            until(lambda: stream.users.count("carl") > carls, "an event of the other tenant")
            return stream.users.count("bert") == before

        until(is_removed, "no more events of the tenant")
        with owner_engine.begin() as connection:
            connection.execute(text("UPDATE sign_ins SET ended_at = now() WHERE person_id = :id"), {"id": person_id})
        assert stream.is_over.wait(10)


def test_stream_ends_after_its_time_limit(live, agent, reader, monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_SECONDS", 0.5)
    with Stream(live, TENANT, reader) as stream:
        assert stream.is_over.wait(10)


def test_streams_are_limited_and_freed_by_disconnects(live, agent, as_tenant, monkeypatch) -> None:
    first, second = as_tenant("log.read"), as_tenant("log.read")
    monkeypatch.setattr(event_stream, "MAX_CALLER_STREAMS", 1)
    with Stream(live, TENANT, first):
        refused = live.get(TENANT, headers=first)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-event-streams")
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["retry-after"] == "10"
        with Stream(live, TENANT, second):
            monkeypatch.setattr(event_stream, "MAX_STREAMS", 2)
            refused = live.get(TENANT, headers=as_tenant("log.read"))
            assert (refused.status_code, refused.json()["code"]) == (503, "event-streams-in-use")

    def is_free() -> bool:
        with live.stream("GET", TENANT, headers=first) as response:
            return response.status_code == 200

    until(is_free, "the place of the closed stream")


def test_streams_hold_no_request_slot_or_connection(live, agent, reader, monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_CALLER_STREAMS", 100)
    with ExitStack() as stack:
        for _ in range(45):
            response = stack.enter_context(live.stream("GET", TENANT, headers=reader))
            assert response.status_code == 200
        assert live.get("/v1/tenants/alpha/decisions", headers=reader).status_code == 200


def test_client_that_does_not_read_loses_the_stream(live, agent, tenant_id, reader, monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "SEND_SECONDS", 0.3)
    monkeypatch.setattr(event_stream, "MAX_CALLER_STREAMS", 1)
    events = [decision(tenant_id, identity="a" * 1_000, detail="d" * 1_000)] * 50

    def is_ended() -> bool:
        agent.write(tenant_id, *events)
        with live.stream("GET", TENANT, headers=reader) as other:
            return other.status_code == 200

    with live.stream("GET", TENANT, headers=reader, params={"most_per_second": 500}):
        until(is_ended, "the stream that nobody reads has ended")


def test_redis_restart_is_reported(database, tmp_path, tenant_id, reader) -> None:
    server = RedisServer()
    server.start()
    try:
        with _serve(database, tmp_path, server) as client, Stream(client, TENANT, reader) as stream:
            agent = Agent(server)
            agent.write_named(tenant_id, "anna")
            stream.wait_users("anna")
            server.stop()
            assert stream.wait_notice("lost") == {"notice": "lost"}
            server.start()
            stream.wait_notice("back")
            agent.write_named(tenant_id, "bert")
            until(lambda: "bert" in stream.users, "events after the restart")
    finally:
        server.remove()


@pytest.mark.parametrize(
    ("path", "query", "status", "place"),
    [
        (TENANT, {"after": "x"}, 422, "after"),
        (TENANT, {"after": "9" * 30}, 422, "after"),
        (TENANT, {"kind": "audit"}, 422, "kind[0]"),
        (TENANT, {"mac": "x"}, 422, "mac"),
        (TENANT, {"most_per_second": 501}, 422, "most_per_second"),
        (TENANT, {"site": "nowhere"}, 404, "site"),
        (TENANT, {"tenant": "alpha"}, 422, "tenant"),
        (ALL, {"tenant": ["alpha", "nobody"]}, 404, "tenant"),
    ],
)
def test_invalid_parameters_are_rejected(live, reader, path, query, status, place) -> None:
    refused = live.get(path, headers=reader, params=query)
    problem = refused.json()
    places = [each["place"] for each in problem.get("mistakes", [problem])]
    assert (refused.status_code, places) == (status, [place])


def test_too_many_tenants_are_rejected(live, platform, app_engine, as_msp, tenant_id, monkeypatch) -> None:
    monkeypatch.setattr(event_routes, "MAX_TENANTS", 1)
    make_tenant(app_engine, platform, "bravo")
    refused = live.get(ALL, headers=as_msp("log.read"))
    assert (refused.status_code, refused.json()["place"]) == (422, "tenant")
