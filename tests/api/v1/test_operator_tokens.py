"""Tokens of the operator. A user who can read the installation's key has all permissions for a short time."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.main import create_app
from nac.accounts import operator_tokens
from nac.accounts.operator_tokens import OperatorToken, get_key_file, make_key, read_key
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Database

NOW = 1_800_000_030


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
    return client.get("/v1/msps", headers={"Authorization": f"Bearer {text}"})


def test_token_of_the_key_has_platform_permissions(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann").reveal()
    assert call(client, token).json() == {"items": [], "next": None}
    made = client.post("/v1/msps", json={"slug": "acme"}, headers={"Authorization": f"Bearer {token}"})
    assert made.status_code == 201
    unknown = client.get("/v1/tenants/none", headers={"Authorization": f"Bearer {token}"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "tenant-not-found")


def test_token_of_another_key_is_rejected(client: httpx.Client) -> None:
    refused = call(client, OperatorToken.make(bytes(32), user="ann").reveal())
    assert (refused.status_code, refused.json()["code"]) == (401, "token-refused")


def test_changed_token_is_rejected(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann")
    changed = (
        OperatorToken("bob", token.expires_at, token.mac),
        OperatorToken("ann", token.expires_at + 60, token.mac),
        OperatorToken("ann", token.expires_at, "0" * 64),
    )
    texts = [each.reveal() for each in changed] + [operator_tokens.PREFIX, token.reveal() + "0"]
    assert [call(client, text).status_code for text in texts] == [401] * 5


def test_api_without_a_key_accepts_no_operator(client: httpx.Client, key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann").reveal()
    for content in ("00\n", ""):
        key_file.write_text(content)
        assert call(client, token).status_code == 401
        empty = OperatorToken.make(bytes.fromhex(content.strip()), user="ann").reveal()
        assert call(client, empty).status_code == 401
    key_file.unlink()
    assert call(client, token).status_code == 401


def test_token_expires_within_two_minutes(clock: list[int], key_file: Path) -> None:
    key = read_key(key_file)
    token = OperatorToken.make(key, user="ann")
    assert token.is_valid(key)
    clock[0] += 89
    assert token.is_valid(key)
    clock[0] += 1
    assert not token.is_valid(key)
    # A token from the future is invalid too.
    clock[0] -= 600
    assert not token.is_valid(key)


def test_tokens_of_a_minute_are_equal(clock: list[int], key_file: Path) -> None:
    key = read_key(key_file)
    first = OperatorToken.make(key, user="ann")
    clock[0] += 20
    assert OperatorToken.make(key, user="ann") == first
    clock[0] += 20
    assert OperatorToken.make(key, user="ann") != first


def test_unusual_user_name_is_replaced(key_file: Path) -> None:
    token = OperatorToken.make(read_key(key_file), user="ann~\n" + "x" * 100)
    assert token.user == "ann__" + "x" * 59
    assert OperatorToken.parse(token.reveal()) == token
    assert OperatorToken.make(read_key(key_file), user="").user == "_"
