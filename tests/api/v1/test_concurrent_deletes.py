"""A connection deletes a row while another connection references it.

The waiting request fails and names the field.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from tests.api.v1.responses import created, refusal
from tests.polling import until

ALPHA = "/v1/tenants/alpha"
MAC = "00:00:5e:00:53:01"
PASSWORD = "correct horse battery"
# For each kind: the request that creates an item, and the statement that deletes it.
_ITEMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "site": ("sites", {"slug": "branch"}, "DELETE FROM sites WHERE slug = 'branch'"),
    "policy": ("policies", {"slug": "office"}, "DELETE FROM policies WHERE slug = 'office'"),
    "group": ("endpoint-groups", {"name": "printers"}, "DELETE FROM endpoint_groups WHERE name = 'printers'"),
    "user group": ("user-groups", {"name": "staff"}, "DELETE FROM user_groups WHERE name = 'staff'"),
    "endpoint": ("endpoints", {"mac": MAC}, "DELETE FROM endpoints"),
    "user": ("users", {"name": "ann", "password": PASSWORD}, "DELETE FROM users"),
    "role": (
        "roles",
        {"slug": "porter", "name": "Porter", "permissions": ["endpoint.read"]},
        "DELETE FROM custom_roles",
    ),
}


def _ask_meanwhile(engine: Engine, statement: str, api: httpx.Client, **request: Any) -> httpx.Response:
    """Send a request that waits for the uncommitted statement, and commit the statement."""

    def is_lock_awaited() -> bool:
        with engine.connect() as looking:
            return bool(looking.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))

    with ThreadPoolExecutor(1) as other, engine.connect() as connection:
        connection.execute(text(statement))
        asked = other.submit(lambda: api.request(**request))
        until(lambda: asked.done() or is_lock_awaited(), "the request waits for the other transaction")
        connection.commit()
        return asked.result()


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
    noun, item, statement = _ITEMS[removed]
    created(api.post(f"{ALPHA}/{noun}", json=item))
    request = {"method": method, "url": f"{ALPHA}/{path}", "json": body}
    answer = _ask_meanwhile(owner_engine, statement, api, **request)
    # A bulk request reports each row.
    [problem] = answer.json().get("mistakes", [answer.json()])
    assert answer.status_code in ((422,) if "[" in place else (422, 409)), answer.text
    assert problem["place"] == place, answer.text
    assert problem["remedy"], answer.text
    for name in ("fk_", "endpoint_group_members", "_id"):
        assert name not in answer.text


def test_referenced_item_stays_and_its_user_is_named(api: httpx.Client, owner_engine: Engine) -> None:
    created(api.post(f"{ALPHA}/sites", json={"slug": "branch"}))
    names = (
        "INSERT INTO nases (id, tenant_id, site_id, name, identifier)"
        " SELECT gen_random_uuid(), tenant_id, id, 'North', 'sw-1' FROM sites WHERE slug = 'branch'"
    )
    request = {"method": "DELETE", "url": f"{ALPHA}/sites/branch"}
    answer = _ask_meanwhile(owner_engine, names, api, **request)
    assert refusal(answer) == (409, "in-use"), answer.text
    assert "NAS" in answer.json()["detail"], answer.text
    assert api.get(f"{ALPHA}/sites/branch").status_code == 200
