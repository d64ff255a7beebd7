"""Directories and other identity providers in the API. One is a real directory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from api.main import create_app
from tests.api.app_server import serve_app, settings_of_public
from tests.identities.conftest import ANNA, ANNAS_PASSWORD, HERE, directory, document, running_directory
from tests.identities.slapd import SERVICE_PASSWORD
from tests.postgres import Database

__all__ = ["directory", "document", "running_directory"]
SOURCES = "/v1/tenants/alpha/identity-sources"


@pytest.fixture
def api_with_loopback_sources(database: Database, tmp_path: Path, api: httpx.Client) -> Iterator[httpx.Client]:
    """The API of a platform that allows sources on loopback, where the tests run their directory."""
    with serve_app(create_app(replace(settings_of_public(database, tmp_path), outbound_reach=HERE))) as client:
        client.headers["Authorization"] = api.headers["Authorization"]
        yield client


def test_source_is_created_tested_updated_and_deleted(
    api_with_loopback_sources: httpx.Client, document: dict[str, object]
) -> None:
    made = api_with_loopback_sources.post(
        SOURCES, json={"name": "corp", "kind": "ldap", "settings": document, "secret": SERVICE_PASSWORD}
    )
    assert made.status_code == 201, made.text
    assert (made.json()["secret"], made.json()["position"], made.json()["enabled"]) == ("set", 100, True)
    address = f"{SOURCES}/corp"
    right = api_with_loopback_sources.post(f"{address}/test", json={"user": ANNA, "password": ANNAS_PASSWORD})
    assert right.status_code == 200, right.text
    assert (right.json()["verified"], right.json()["name"]) == (True, ANNA)
    assert right.json()["steps"]
    wrong = api_with_loopback_sources.post(f"{address}/test", json={"user": ANNA, "password": "guessed"}).json()
    assert (wrong["verified"], bool(wrong["reason"]), bool(wrong["advice"])) == (False, True, True)
    read = api_with_loopback_sources.get(address)
    changed = api_with_loopback_sources.patch(address, json={"enabled": False, "settings": {"waiting": 3}})
    assert (changed.json()["enabled"], changed.json()["settings"]["waiting"]) == (False, 3)
    back = api_with_loopback_sources.patch(address, json={"settings": {"waiting": None}, "position": 1})
    assert "waiting" not in back.json()["settings"]
    # Otherwise a user who can change the address could send the secret to any server.
    elsewhere = api_with_loopback_sources.patch(address, json={"settings": {"urls": ["ldaps://ldap.example.net"]}})
    assert (elsewhere.status_code, elsewhere.json()["place"]) == (422, "secret")
    for answer in (made, right, read, changed, api_with_loopback_sources.get(SOURCES)):
        assert SERVICE_PASSWORD not in answer.text
        assert ANNAS_PASSWORD not in answer.text
    assert api_with_loopback_sources.delete(address, headers={"If-Match": read.headers["etag"]}).status_code == 412
    assert api_with_loopback_sources.delete(address).status_code == 204
    assert api_with_loopback_sources.get(SOURCES).json() == {"items": [], "next": None}


def test_settings_are_validated_together(api: httpx.Client) -> None:
    for settings, told in (
        ({"urls": ["ldap://ldap.example.net"], "base_dn": "dc=x"}, "clear"),
        ({"urls": ["ldaps://127.0.0.1"], "base_dn": "dc=x"}, "loopback"),
        ({"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=x", "colour": 1}, "colour"),
        ({"urls": 5}, "urls"),
        ({}, "urls"),
    ):
        answer = api.post(SOURCES, json={"name": "corp", "kind": "ldap", "settings": settings})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-identity-source"), answer.text
        assert told in answer.text
        assert api.get(SOURCES).json() == {"items": [], "next": None}
