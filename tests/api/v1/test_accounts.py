"""Members, roles and tokens through the API."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine

from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope


def test_new_tenant_token_reaches_only_its_tenant(api: httpx.Client) -> None:
    made = api.post("/v1/msps/acme/tenants", json={"slug": "hill-school", "name": "Hill School"})
    assert made.status_code == 201, made.text
    assert made.json()["listeners"]["acct_port"] == made.json()["listeners"]["auth_port"] + 1
    assert [each["slug"] for each in api.get("/v1/msps/acme/tenants").json()["items"]] == ["alpha", "hill-school"]
    token = api.post(
        "/v1/tenants/hill-school/tokens",
        json={"name": "script", "permissions": ["tenant.read"], "expires_at": _soon()},
    )
    assert token.status_code == 201, token.text
    own = {"Authorization": f"Bearer {token.json()['token']}"}
    assert api.get("/v1/tenants/hill-school", headers=own).json()["name"] == "Hill School"
    assert api.get(f"/v1/tenants/{made.json()['id']}", headers=own).status_code == 200
    assert api.get("/v1/tenants/alpha", headers=own).status_code == 404
    assert api.get("/v1/tenants/hill-school/endpoints", headers=own).status_code == 403
    listed = api.get("/v1/tenants/hill-school/tokens").json()["items"]
    assert [each["name"] for each in listed] == ["script"]
    assert token.json()["token"] not in str(listed)
    assert api.delete(f"/v1/tenants/hill-school/tokens/{listed[0]['id']}").status_code == 204
    refused = api.get("/v1/tenants/hill-school", headers=own)
    assert (refused.status_code, refused.json()["code"]) == (401, "token-refused")


def test_response_and_audit_share_the_request_id(api: httpx.Client, app_engine: Engine) -> None:
    made = api.post("/v1/msps/acme/tenants", json={"slug": "hill-school"}, headers={"X-Request-Id": "mine"})
    name = made.headers["x-request-id"]
    assert len(name) == 16
    with session_scope(PlatformScope(), engine=app_engine) as session:
        entries = [entry for entry in audit.list_entries(session) if entry.target == "hill-school"]
    assert {entry.request_id for entry in entries} == {name}
    assert {entry.actor.partition(" ")[0] for entry in entries} == {"token:test"}
    refused = api.get("/v1/tenants/unheard-of")
    assert refused.headers["x-request-id"] not in ("", name)


def test_duplicate_slug_is_a_conflict(api: httpx.Client) -> None:
    answer = api.post("/v1/msps/acme/tenants", json={"slug": "alpha"})
    assert (answer.status_code, answer.json()["place"]) == (409, "slug")
    assert "'alpha'" in answer.json()["detail"]


def test_technician_has_only_the_chosen_tenants(api: httpx.Client) -> None:
    made = api.post(
        "/v1/msps/acme/members", json={"email": "Ann@example.com", "role": "msp-technician", "tenants": ["alpha"]}
    )
    assert made.status_code == 201, made.text
    member = made.json()
    assert (member["email"], len(member["tenants"])) == ("ann@example.com", 1)
    path = f"/v1/msps/acme/members/{member['id']}"
    assert api.patch(path, json={"role": "help-desk"}).json()["tenants"] == member["tenants"]
    (now,) = api.get("/v1/msps/acme/members").json()["items"]
    # Omitted fields are not changed, so the tenants are unchanged.
    assert (now["role"], now["tenants"]) == ("help-desk", member["tenants"])
    assert api.patch(path, json={"role": "help-desk", "tenants": None}).json()["tenants"] is None
    assert api.delete(path).status_code == 204
    assert api.delete(path).json()["code"] == "member-not-found"


def test_custom_role_is_created_and_assigned(api: httpx.Client) -> None:
    role = {"slug": "kicker", "name": "Kicker", "permissions": ["session.disconnect"]}
    assert api.post("/v1/tenants/alpha/roles", json=role).status_code == 201
    listed = {each["slug"]: each["own"] for each in api.get("/v1/tenants/alpha/roles").json()["items"]}
    assert listed == {"tenant-admin": False, "help-desk": False, "auditor": False, "kicker": True}
    changed = api.patch("/v1/tenants/alpha/roles/kicker", json={"permissions": ["session.read"]})
    assert changed.json()["permissions"] == ["session.read"]
    api.post("/v1/tenants/alpha/members", json={"email": "ann@example.com", "role": "kicker"})
    assert api.delete("/v1/tenants/alpha/roles/kicker").json()["code"] == "in-use"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tokens", {"name": "x", "permissions": ["endpoint.manage"]}),
        ("members", {"email": "eve@example.com", "role": "tenant-admin"}),
        ("roles", {"slug": "x", "name": "x", "permissions": ["endpoint.manage"]}),
    ],
)
def test_user_cannot_grant_missing_permissions(api, make_token, tenant_id, platform, path, body) -> None:
    few = make_token(Owner(tenant_id=tenant_id), "token.manage", "member.manage", "role.manage", "token.read")
    if path == "tokens":
        body = body | {"expires_at": _soon()}
    answer = api.post(f"/v1/tenants/alpha/{path}", json=body, headers={"Authorization": f"Bearer {few}"})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission-missing"), answer.text
    assert api.post(f"/v1/tenants/alpha/{path}", json=body).status_code == 201


def _soon() -> str:
    return (utc_now() + timedelta(days=30)).isoformat()
