"""Members, roles, tokens and operator tokens."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.accounts import operator_tokens
from nac.accounts.operator_tokens import OperatorToken, get_key_file, make_key, read_key
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import bearer
from tests.api.v1.responses import created, refusal
from tests.postgres import Database

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
NOW = 1_800_000_030


def test_token_is_shown_once_and_valid_until_revoked(api: httpx.Client) -> None:
    body = {
        "name": "script",
        "permissions": ["tenant.read"],
        "expires_at": (utc_now() + timedelta(days=30)).isoformat(),
    }
    made = created(api.post(f"{ALPHA}/tokens", json=body))
    own = bearer(made["token"])
    assert api.get(ALPHA, headers=own).json()["slug"] == "alpha"
    listed = api.get(f"{ALPHA}/tokens")
    assert [each["id"] for each in listed.json()["items"]] == [made["id"]]
    assert made["token"] not in listed.text
    assert api.delete(f"{ALPHA}/tokens/{made['id']}").status_code == 204
    assert refusal(api.get(ALPHA, headers=own)) == (401, "token-refused")


def test_response_and_audit_share_the_request_id(api: httpx.Client, app_engine: Engine) -> None:
    made = api.post(f"{ACME}/tenants", json={"slug": "hill-school"}, headers={"X-Request-Id": "mine"})
    name = made.headers["x-request-id"]
    assert len(name) == 16
    with session_scope(PlatformScope(), engine=app_engine) as session:
        entries = [entry for entry in audit.list_entries(session) if entry.target == "hill-school"]
    assert {entry.request_id for entry in entries} == {name}
    assert {entry.actor.partition(" ")[0] for entry in entries} == {"token:test"}
    assert api.get("/v1/tenants/unheard-of").headers["x-request-id"] not in ("", name)


def test_technician_has_only_the_chosen_tenants(api: httpx.Client) -> None:
    body = {"email": "Ann@example.com", "role": "msp-technician", "tenants": ["alpha"]}
    member = created(api.post(f"{ACME}/members", json=body))
    assert (member["email"], len(member["tenants"])) == ("ann@example.com", 1)
    path = f"{ACME}/members/{member['id']}"
    # Omitted fields are not changed, so the tenants are unchanged.
    assert api.patch(path, json={"role": "help-desk"}).json()["tenants"] == member["tenants"]
    (now,) = api.get(f"{ACME}/members").json()["items"]
    assert (now["role"], now["tenants"]) == ("help-desk", member["tenants"])
    assert api.patch(path, json={"role": "help-desk", "tenants": None}).json()["tenants"] is None
    assert api.delete(path).status_code == 204
    assert api.delete(path).json()["code"] == "member-not-found"


def test_custom_role_is_created_and_assigned(api: httpx.Client) -> None:
    created(
        api.post(f"{ALPHA}/roles", json={"slug": "kicker", "name": "Kicker", "permissions": ["session.disconnect"]})
    )
    listed = {each["slug"]: each["own"] for each in api.get(f"{ALPHA}/roles").json()["items"]}
    assert listed == {"tenant-admin": False, "help-desk": False, "auditor": False, "kicker": True}
    changed = api.patch(f"{ALPHA}/roles/kicker", json={"permissions": ["session.read"]})
    assert changed.json()["permissions"] == ["session.read"]
    created(api.post(f"{ALPHA}/members", json={"email": "ann@example.com", "role": "kicker"}))
    assert api.delete(f"{ALPHA}/roles/kicker").json()["code"] == "in-use"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [NOW]
    monkeypatch.setattr(operator_tokens, "epoch_seconds", lambda: now[0])
    return now


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = get_key_file(tmp_path)
    file.parent.mkdir()
    file.write_text(make_key())
    return file


@pytest.fixture
def client(database: Database, tmp_path: Path, key_file: Path) -> Iterator[httpx.Client]:
    with serve_app(create_app(settings_of_public(database, tmp_path, ADMIT_VAR_DIR=str(tmp_path)))) as client:
        yield client


def call(client: httpx.Client, text: str) -> httpx.Response:
    return client.get("/v1/msps", headers=bearer(text))


def test_operator_token_has_platform_permissions(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann").reveal()
    assert call(client, token).json() == {"items": [], "next": None}
    created(client.post("/v1/msps", json={"slug": "acme"}, headers=bearer(token)))
    assert refusal(client.get("/v1/tenants/none", headers=bearer(token))) == (404, "tenant-not-found")


def test_forged_operator_token_is_rejected(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann")
    forged = (
        OperatorToken.make(bytes(32), user="ann"),
        OperatorToken("bob", token.expires_at, token.mac),
        OperatorToken("ann", token.expires_at + 60, token.mac),
        OperatorToken("ann", token.expires_at, "0" * 64),
    )
    for text in (*(each.reveal() for each in forged), operator_tokens.PREFIX, token.reveal() + "0"):
        assert refusal(call(client, text)) == (401, "token-refused")


def test_api_without_a_key_accepts_no_operator(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann").reveal()
    for content in ("00\n", ""):
        key_file.write_text(content)
        empty = OperatorToken.make(bytes.fromhex(content.strip()), user="ann").reveal()
        assert [call(client, each).status_code for each in (token, empty)] == [401, 401]
    key_file.unlink()
    assert call(client, token).status_code == 401


def test_operator_token_expires_within_two_minutes(clock: list[int], key_file: Path) -> None:
    key = read_key(key_file)
    token = OperatorToken.make(key, user="ann")
    # A token from the future is invalid too.
    for seconds, is_valid in ((0, True), (89, True), (90, False), (-510, False)):
        clock[0] = NOW + seconds
        assert token.is_valid(key) is is_valid, seconds


def test_operator_tokens_of_a_minute_are_equal(clock: list[int], key_file: Path) -> None:
    key = read_key(key_file)
    first = OperatorToken.make(key, user="ann")
    for seconds, is_equal in ((20, True), (40, False)):
        clock[0] = NOW + seconds
        assert (OperatorToken.make(key, user="ann") == first) is is_equal


def test_unusual_user_name_in_a_token_is_replaced(key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann~\n" + "x" * 100)
    assert token.user == "ann__" + "x" * 59
    assert OperatorToken.parse(token.reveal()) == token
    assert OperatorToken.make(read_key(key_file), user="").user == "_"
