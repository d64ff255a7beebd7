"""Rules common to all routes: idempotency keys, If-Match, and request ids."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import httpx
import psycopg
from sqlalchemy import Engine

from nac.core import idempotency
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from tests.api.v1.conftest import As
from tests.api.v1.responses import refusal
from tests.postgres import Database

ENDPOINTS = "/v1/tenants/alpha/endpoints"
PRINTER = "00:00:5e:00:53:01"


def named(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_idempotent_change_runs_once(api: httpx.Client) -> None:
    key = named(str(uuid4()))
    first = api.post(ENDPOINTS, json={"mac": PRINTER}, headers=key)
    again = api.post(ENDPOINTS, json={"mac": PRINTER}, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    for name in ("etag", "admit-position"):
        assert again.headers[name] == first.headers[name]
    assert "idempotency-replayed" not in first.headers
    assert (first.headers["admit-live"], again.headers["admit-live"]) == ("false", "false")
    assert "tenant" not in again.headers
    # Without the key, or with another key, the request is another change.
    for headers in ({}, named("other")):
        assert api.post(ENDPOINTS, json={"mac": PRINTER}, headers=headers).status_code == 409
    gone = [api.delete(f"{ENDPOINTS}/{PRINTER}", headers=named("gone")) for _ in range(2)]
    assert [(each.status_code, each.content) for each in gone] == [(204, b"")] * 2


def test_idempotency_key_belongs_to_one_request(api: httpx.Client) -> None:
    api.post(ENDPOINTS, json={"mac": PRINTER}, headers=named("k"))
    for answer in (
        api.post(ENDPOINTS, json={"mac": "00:00:5e:00:53:02"}, headers=named("k")),
        api.post(f"{ENDPOINTS}?wait=live", json={"mac": PRINTER}, headers=named("k")),
        api.delete(f"{ENDPOINTS}/{PRINTER}", headers=named("k")),
    ):
        assert refusal(answer) == (422, "key-reused")
    assert len(api.get(ENDPOINTS).json()["items"]) == 1


def test_failed_change_can_be_retried(api: httpx.Client) -> None:
    wrong = api.post(ENDPOINTS, json={"mac": "02:00:00:00:00:01"}, headers=named("k"))
    assert wrong.status_code == 422
    assert api.post(ENDPOINTS, json={"mac": PRINTER}, headers=named("k")).status_code == 201


def test_invalid_idempotency_key_is_rejected(api: httpx.Client) -> None:
    for key in (b"", b"x" * 201, b"a\tb", b"\xff\xfe", b"\xc3\xa9", b"x" * 20_000):
        answer = api.post(ENDPOINTS, json={"mac": PRINTER}, headers={b"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["place"]) == (422, "Idempotency-Key")


def test_keys_of_two_callers_are_separate(api: httpx.Client, as_tenant: As) -> None:
    first, second = (api.post(ENDPOINTS, json={"mac": PRINTER}, headers=named("k") | who) for who in ({}, as_tenant()))
    assert (first.status_code, second.status_code) == (201, 409)


def test_concurrent_duplicates_run_once(api: httpx.Client) -> None:
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: api.post(ENDPOINTS, json={"mac": PRINTER}, headers=named("k")), range(6)))
    assert {each.status_code for each in answers} == {201}
    assert sum("idempotency-replayed" not in each.headers for each in answers) == 1


def test_secret_in_a_stored_response_is_sealed_and_expires(
    api: httpx.Client, database: Database, worker_engine: Engine
) -> None:
    wanted = {"name": "x", "permissions": ["site.read"], "expires_at": (utc_now() + timedelta(days=1)).isoformat()}
    made, again = (api.post("/v1/tenants/alpha/tokens", json=wanted, headers=named("k")).json() for _ in range(2))
    assert made == again
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        rows = connection.execute("SELECT t::text FROM idempotency_keys t").fetchall()
        assert len(rows) == 1
        assert made["token"].rpartition("_")[2].encode().hex() not in rows[0][0]
        assert made["token"] not in rows[0][0]
        with session_scope(PlatformScope(), engine=worker_engine) as session:
            assert idempotency.prune(session) == 0
        connection.execute("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        assert idempotency.prune(session) == 1


def test_stale_if_match_is_rejected(api: httpx.Client) -> None:
    first = api.post(ENDPOINTS, json={"mac": PRINTER}, headers={"If-Match": "*"}).headers["etag"]
    path = f"{ENDPOINTS}/{PRINTER}"
    assert api.get(path).headers["etag"] == first
    second = api.patch(path, json={"name": "A"}, headers={"If-Match": first})
    assert second.status_code == 200
    for change in (
        api.patch(path, json={"name": "B"}, headers={"If-Match": first}),
        api.delete(path, headers={"If-Match": first}),
    ):
        assert refusal(change) == (412, "has-changed")
    assert api.get(path).json()["name"] == "A"
    assert api.patch(path, json={"name": "C"}, headers={"If-Match": "*"}).status_code == 200
    now = api.get(path).headers["etag"]
    # A weak tag never matches (RFC 9110 13.1.1). Admit reads only a limited number of tags.
    for none in (f"W/{now}", now.strip('"'), "", '"x",' * 5_000 + now, "*, " + now[:-1]):
        assert api.patch(path, json={"name": "D"}, headers={"If-Match": none}).status_code == 412, none
    several = [("If-Match", '"y"'), ("If-Match", f'"z", {now}')]
    now = api.patch(path, json={"name": "E"}, headers=several).headers["etag"]
    tags = f'"x", {now}'
    assert api.delete(path, headers={"If-Match": tags}).status_code == 204


def test_replayed_response_has_the_current_cell_status(api: httpx.Client, database: Database) -> None:
    """The response belongs to an update or to the creation of a tenant."""

    def ask() -> list[httpx.Response]:
        bodies = ((ENDPOINTS, {"mac": PRINTER}), ("/v1/tenants", {"slug": "beta"}))
        return [api.post(path, json=body, headers=named("k")) for path, body in bodies]

    first = ask()
    assert [each.headers["admit-live"] for each in first] == ["false", "false"], [each.text for each in first]
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("UPDATE cells SET replica_position = pg_current_snapshot()")
    for one, other in zip(first, ask(), strict=True):
        assert (other.headers["idempotency-replayed"], other.headers["admit-live"]) == ("true", "true")
        assert other.content == one.content


def test_missing_resource_has_no_etag(api: httpx.Client) -> None:
    wanted = {"url": "https://mdm.example/x"}
    path = "/v1/tenants/alpha/scep/webhook"
    for tag in ('"x"', "*"):
        refused = api.put(path, json=wanted, headers={"If-Match": tag})
        assert refusal(refused) == (412, "has-changed")
    assert api.put(path, json=wanted).status_code == 200
