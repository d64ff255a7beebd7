"""A connection deletes a row while another connection references it.

The waiting request fails and names the field.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, Engine, text

from tests.polling import until

ALPHA = "/v1/tenants/alpha"
MAC = "00:00:5e:00:53:01"
PASSWORD = "correct horse battery"
_MAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "site": ("sites", {"slug": "branch"}),
    "policy": ("policies", {"slug": "office"}),
    "group": ("endpoint-groups", {"name": "printers"}),
    "user group": ("user-groups", {"name": "staff"}),
    "endpoint": ("endpoints", {"mac": MAC}),
    "user": ("users", {"name": "ann", "password": PASSWORD}),
    "role": ("roles", {"slug": "porter", "name": "Porter", "permissions": ["endpoint.read"]}),
}
_REMOVES = {
    "site": "DELETE FROM sites WHERE slug = 'branch'",
    "policy": "DELETE FROM policies WHERE slug = 'office'",
    "group": "DELETE FROM endpoint_groups WHERE name = 'printers'",
    "user group": "DELETE FROM user_groups WHERE name = 'staff'",
    "endpoint": "DELETE FROM endpoints",
    "user": "DELETE FROM users",
    "role": "DELETE FROM custom_roles",
}


@contextmanager
def _at_the_same_time(
    engine: Engine, statement: str, api: httpx.Client, **request: Any
) -> Iterator[dict[str, httpx.Response]]:
    """Send a request that waits for the uncommitted statement, and commit the statement."""
    answered: dict[str, httpx.Response] = {}
    with ThreadPoolExecutor(1) as other, engine.connect() as connection:
        connection.execute(text(statement))
        asked = other.submit(lambda: api.request(**request))
        until(lambda: asked.done() or _is_lock_awaited(engine), "the request waits for the other transaction")
        connection.commit()
        answered["answer"] = asked.result()
    yield answered


def _is_lock_awaited(engine: Engine) -> bool:
    with engine.connect() as connection:
        return _waiting(connection) > 0


def _waiting(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")) or 0)


def _make(api: httpx.Client, *names: str) -> None:
    for name in names:
        path, body = _MAKES[name]
        made = api.post(f"{ALPHA}/{path}", json=body)
        assert made.status_code == 201, made.text


@pytest.mark.parametrize(
    ("removed", "method", "path", "body", "place"),
    [
        ("site", "POST", "nases", {"name": "North", "identifier": "sw-1", "site": "branch"}, "site"),
        ("site", "POST", "pools", {"name": "devices", "ranges": ["10.1.0.0/29"], "site": "branch"}, "site"),
        (
            "site",
            "POST",
            "nases/bulk",
            {"operation": "put", "items": [{"name": "N", "identifier": "n", "site": "branch"}]},
            "items",
        ),
        ("policy", "PATCH", "sites/main", {"policy": "office"}, "policy"),
        ("group", "POST", "endpoints", {"mac": MAC, "groups": ["printers"]}, "groups"),
        (
            "group",
            "POST",
            "endpoints/bulk",
            {"operation": "put", "items": [{"mac": MAC, "groups": ["printers"]}]},
            "items[0].groups",
        ),
        ("user group", "POST", "users", {"name": "bo", "password": PASSWORD, "groups": ["staff"]}, "groups"),
        ("endpoint", "POST", "enrolment-secrets", {"name": "mdm", "endpoint_mac": MAC}, "endpoint_mac"),
        ("user", "POST", "enrolment-secrets", {"name": "mdm", "user_name": "ann"}, "user_name"),
        ("role", "POST", "members", {"email": "ann@example.com", "role": "porter"}, "role"),
    ],
)
def test_deleting_a_referenced_item_reports_the_field(
    api: httpx.Client, owner_engine: Engine, removed: str, method: str, path: str, body: dict[str, Any], place: str
) -> None:
    _make(api, removed)
    request = {"method": method, "url": f"{ALPHA}/{path}", "json": body}
    with _at_the_same_time(owner_engine, _REMOVES[removed], api, **request) as answered:
        answer = answered["answer"]
    # A bulk request reports each row.
    [problem] = answer.json().get("mistakes", [answer.json()])
    assert answer.status_code in ((422,) if "[" in place else (422, 409)), answer.text
    assert problem["place"] == place, answer.text
    assert problem["remedy"], answer.text
    for name in ("fk_", "endpoint_group_members", "_id"):
        assert name not in answer.text


def test_referenced_item_stays_and_its_user_is_named(api: httpx.Client, owner_engine: Engine) -> None:
    _make(api, "site")
    names = (
        "INSERT INTO nases (id, tenant_id, site_id, name, identifier)"
        " SELECT gen_random_uuid(), tenant_id, id, 'North', 'sw-1' FROM sites WHERE slug = 'branch'"
    )
    request = {"method": "DELETE", "url": f"{ALPHA}/sites/branch"}
    with _at_the_same_time(owner_engine, names, api, **request) as answered:
        answer = answered["answer"]
    assert (answer.status_code, answer.json()["code"]) == (409, "in-use"), answer.text
    assert "NASes" in answer.json()["detail"] or "NAS" in answer.json()["detail"], answer.text
    assert api.get(f"{ALPHA}/sites/branch").status_code == 200
