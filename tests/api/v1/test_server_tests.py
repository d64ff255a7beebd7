"""A silent server delays only its own tenant's tests."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import httpx
import pytest

from api.application_state import MAX_THREADS

ALPHA = "/v1/tenants/alpha"
_SECONDS = 2.0


@pytest.fixture
def outbound_networks() -> str:
    return "127.0.0.0/8"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=MAX_THREADS) as listener:
        yield listener.getsockname()[1]


def _add_feed(api: httpx.Client, port: int) -> None:
    settings = {"url": f"https://127.0.0.1:{port}/", "timeout_seconds": _SECONDS}
    added = api.post(f"{ALPHA}/feeds", json={"kind": "webhook", "name": "silent", "settings": settings})
    assert added.status_code == 201, added.text


def _add_source(api: httpx.Client, port: int) -> None:
    settings = {"urls": [f"ldaps://127.0.0.1:{port}"], "base_dn": "dc=x", "time_limit_seconds": _SECONDS}
    added = api.post(f"{ALPHA}/identity-sources", json={"kind": "ldap", "name": "silent", "settings": settings})
    assert added.status_code == 201, added.text


@pytest.mark.parametrize(
    ("add", "path", "body"),
    [
        (_add_feed, "feeds/silent/test", None),
        (_add_source, "identity-sources/silent/test", {"user": "ann", "password": "hush"}),
    ],
    ids=["feed", "identity source"],
)
def test_silent_server_delays_only_its_tenant(
    api: httpx.Client, silent_port: int, add: Any, path: str, body: dict[str, str] | None
) -> None:
    add(api, silent_port)
    with ThreadPoolExecutor(MAX_THREADS) as clients:
        asked = [clients.submit(api.post, f"{ALPHA}/{path}", json=body) for _ in range(MAX_THREADS)]
        refused = next(each.result() for each in as_completed(asked))
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-tests"), refused.text
        assert refused.headers["retry-after"]
        answer = api.post(f"{ALPHA}/endpoints", json={"mac": "00:00:5e:00:53:01"}, timeout=_SECONDS)
        assert answer.status_code == 201, answer.text
        assert [each.result().status_code for each in asked].count(200) == 2
    # The slots for tests are free again.
    assert api.post(f"{ALPHA}/{path}", json=body).status_code == 200
