"""Identity sources, one of which is a real directory, and tests of servers that do not respond."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.application_state import MAX_THREADS
from api.main import create_app
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.responses import created, refusal
from tests.identities.conftest import ANNA, ANNAS_PASSWORD, HERE, directory, document, running_directory
from tests.identities.slapd import SERVICE_PASSWORD
from tests.postgres import Database

__all__ = ["directory", "document", "running_directory"]
ALPHA = "/v1/tenants/alpha"
SOURCES = f"{ALPHA}/identity-sources"
_SECONDS = 2.0


@pytest.fixture
def loopback_api(database: Database, tmp_path: Path, api: httpx.Client) -> Iterator[httpx.Client]:
    """The API of a platform that allows sources on loopback, where the tests run their directory."""
    with serve_app(create_app(replace(settings_of_public(database, tmp_path), outbound_reach=HERE))) as client:
        client.headers["Authorization"] = api.headers["Authorization"]
        yield client


def test_source_is_created_tested_updated_and_deleted(loopback_api: httpx.Client, document: dict[str, object]) -> None:
    body = {"name": "corp", "kind": "ldap", "settings": document, "secret": SERVICE_PASSWORD}
    made = loopback_api.post(SOURCES, json=body)
    assert created(made).items() >= {"secret": "set", "position": 100, "enabled": True}.items()
    address = f"{SOURCES}/corp"
    right = loopback_api.post(f"{address}/test", json={"user": ANNA, "password": ANNAS_PASSWORD})
    assert (right.json()["verified"], right.json()["name"], bool(right.json()["steps"])) == (True, ANNA, True)
    wrong = loopback_api.post(f"{address}/test", json={"user": ANNA, "password": "guessed"}).json()
    assert (wrong["verified"], bool(wrong["reason"]), bool(wrong["advice"])) == (False, True, True)
    changed = loopback_api.patch(address, json={"enabled": False, "settings": {"waiting": 3}})
    assert (changed.json()["enabled"], changed.json()["settings"]["waiting"]) == (False, 3)
    back = loopback_api.patch(address, json={"settings": {"waiting": None}, "position": 1})
    assert "waiting" not in back.json()["settings"]
    # Otherwise a user who can change the address could send the secret to any server.
    elsewhere = loopback_api.patch(address, json={"settings": {"urls": ["ldaps://ldap.example.net"]}})
    assert (elsewhere.status_code, elsewhere.json()["place"]) == (422, "secret")
    # Admit uses the name to evaluate live sessions again.
    assert loopback_api.patch(address, json={"name": "new"}).status_code == 422
    for answer in (made, right, changed, loopback_api.get(address), loopback_api.get(SOURCES)):
        assert not any(secret in answer.text for secret in (SERVICE_PASSWORD, ANNAS_PASSWORD))
    assert loopback_api.delete(address).status_code == 204
    assert loopback_api.get(SOURCES).json() == {"items": [], "next": None}


def test_settings_are_validated_together(api: httpx.Client) -> None:
    for settings, told in (
        ({"urls": ["ldap://ldap.example.net"], "base_dn": "dc=x"}, "clear"),
        ({"urls": ["ldaps://127.0.0.1"], "base_dn": "dc=x"}, "loopback"),
        ({"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=x", "colour": 1}, "colour"),
        ({"urls": 5}, "urls"),
        ({}, "urls"),
    ):
        answer = api.post(SOURCES, json={"name": "corp", "kind": "ldap", "settings": settings})
        assert refusal(answer) == (422, "invalid-identity-source"), answer.text
        assert told in answer.text
    assert api.get(SOURCES).json() == {"items": [], "next": None}


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=MAX_THREADS) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("outbound_networks", ["127.0.0.0/8"])
@pytest.mark.parametrize(
    ("noun", "kind", "settings", "body"),
    [
        ("feeds", "webhook", {"url": "https://127.0.0.1:{}/", "timeout_seconds": _SECONDS}, None),
        (
            "identity-sources",
            "ldap",
            {"urls": ["ldaps://127.0.0.1:{}"], "base_dn": "dc=x", "time_limit_seconds": _SECONDS},
            {"user": "ann", "password": "hush"},
        ),
    ],
    ids=["feed", "identity source"],
)
def test_silent_server_delays_only_its_tenant(
    api: httpx.Client, silent_port: int, noun: str, kind: str, settings: dict[str, Any], body: dict[str, str] | None
) -> None:
    first, address = next(iter(settings.items()))
    named = [address[0].format(silent_port)] if isinstance(address, list) else address.format(silent_port)
    created(api.post(f"{ALPHA}/{noun}", json={"kind": kind, "name": "silent", "settings": settings | {first: named}}))
    path = f"{ALPHA}/{noun}/silent/test"
    with ThreadPoolExecutor(MAX_THREADS) as clients:
        asked = [clients.submit(api.post, path, json=body) for _ in range(MAX_THREADS)]
        refused = next(each.result() for each in as_completed(asked))
        assert refusal(refused) == (429, "too-many-tests"), refused.text
        assert refused.headers["retry-after"]
        created(api.post(f"{ALPHA}/endpoints", json={"mac": "00:00:5e:00:53:01"}, timeout=_SECONDS))
        assert [each.result().status_code for each in asked].count(200) == 2
    # The slots for tests are free again.
    assert api.post(path, json=body).status_code == 200
