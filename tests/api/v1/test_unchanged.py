"""Conditional requests with an ETag (RFC 9110 13.1.2)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from api.change import compute_etag
from api.v1.nases import NasDetail
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import EndpointSighting, SignIn
from tests.factories.rows import make_row

ALPHA = "/v1/tenants/alpha"
MAC = "00:00:5e:00:53:01"
PATH = f"{ALPHA}/endpoints/{MAC}"


@pytest.fixture
def tag(api: httpx.Client) -> str:
    return api.post("/v1/tenants/alpha/endpoints", json={"mac": MAC}).headers["etag"]


def test_unchanged_resource_returns_not_modified(api: httpx.Client, tag: str) -> None:
    for form in ("{}", "W/{}", '"other", {}', "*"):
        again = api.get(PATH, headers={"If-None-Match": form.format(tag)})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["x-request-id"]
        assert again.headers["cache-control"] == "no-store"


def test_changed_resource_is_returned(api: httpx.Client, tag: str) -> None:
    assert api.get(PATH, headers={"If-None-Match": '"other"'}).status_code == 200
    assert api.patch(PATH, json={"name": "Printer"}, headers={"If-None-Match": tag}).status_code == 200
    assert api.get(PATH, headers={"If-None-Match": tag}).json()["name"] == "Printer"


def test_seen_device_changes_the_etag_for_reads_only(
    api: httpx.Client, tag: str, owner_engine: Engine, tenant_id: TenantId
) -> None:
    with Session(owner_engine) as session, session.begin():
        seen = {"mac": MAC.replace(":", ""), "last_seen_at": datetime(2026, 1, 31, tzinfo=UTC)}
        make_row(session, EndpointSighting.__table__, tenant_id, **seen)
    assert api.get(PATH, headers={"If-None-Match": tag}).json()["last_seen_at"]
    assert api.patch(PATH, json={"name": "Printer"}, headers={"If-Match": tag}).status_code == 200


def test_group_rule_membership_changes_reads_only(api: httpx.Client, tag: str, owner_engine: Engine) -> None:
    rule = {"attribute": "endpoint.vendor", "operator": "equals", "value": "Acme"}
    for body in ({"name": "acme", "rule": rule}, {"name": "printers"}):
        assert api.post(f"{ALPHA}/endpoint-groups", json=body).status_code == 201
    ruled = (
        "INSERT INTO endpoint_group_members (tenant_id, endpoint_id, group_id)"
        " SELECT e.tenant_id, e.id, g.id FROM endpoints e, endpoint_groups g WHERE g.name = 'acme'"
    )
    with owner_engine.begin() as connection:
        connection.execute(text(ruled))
    now = api.get(PATH, headers={"If-None-Match": tag}).json()
    assert now["groups"] == ["acme"]
    # A client can send a returned document back. The groups that a rule assigned remain.
    joined = api.patch(PATH, json={"groups": [*now["groups"], "printers"]}, headers={"If-Match": tag})
    assert (joined.status_code, joined.json()["groups"]) == (200, ["acme", "printers"]), joined.text
    assert api.patch(PATH, json={"name": "x"}, headers={"If-Match": tag}).status_code == 412


@pytest.mark.parametrize(
    ("path", "made_by", "seen", "changes"),
    [
        (
            f"{ALPHA}/pools/devices",
            {"name": "devices", "ranges": ["10.1.0.0/29"]},
            "UPDATE pool_addresses SET state = 'leased', decided_at = now(), mac = '00005e005301'"
            " WHERE host(address) = '10.1.0.1'",
            {"stock": 3},
        ),
        (
            f"{ALPHA}/members/",
            {"email": "ann@example.com", "role": "help-desk", "invite": False},
            "UPDATE memberships SET accepted_at = now(); UPDATE people SET name = 'Ann'",
            {"role": "auditor"},
        ),
    ],
)
def test_device_and_user_activity_changes_reads_only(
    api: httpx.Client, owner_engine: Engine, path: str, made_by: dict[str, Any], seen: str, changes: dict[str, Any]
) -> None:
    made = api.post(path.rpartition("/")[0], json=made_by)
    assert made.status_code == 201, made.text
    path = path + made.json()["id"] if path.endswith("/") else path
    first = api.get(path)
    with owner_engine.begin() as connection:
        for statement in seen.split(";"):
            assert connection.execute(text(statement)).rowcount == 1
    now = api.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert now.status_code == 200
    assert now.json() != first.json()
    changed = api.patch(path, json=changes, headers={"If-Match": first.headers["etag"]})
    assert changed.status_code == 200, changed.text
    stale = api.patch(path, json=changes, headers={"If-Match": first.headers["etag"]})
    assert stale.status_code == 412


def test_signed_in_user_can_still_be_disabled(
    api: httpx.Client, operator: dict[str, str], owner_engine: Engine
) -> None:
    api.headers.update(operator)
    people = "/v1/platform/people"
    path = f"{people}/{api.post(people, json={'email': 'ann@example.com'}).json()['id']}"
    tag = api.get(path).headers["etag"]
    with Session(owner_engine) as session, session.begin():
        person_id = UUID(path.rpartition("/")[2])
        ends = utc_now() + timedelta(days=1)
        named = {"public_id": "0" * 16, "secret_sha256": b"0", "person_id": person_id, "factors": ["password"]}
        session.add(SignIn(**named, expires_at=ends))
    assert len(api.get(path, headers={"If-None-Match": tag}).json()["sessions"]) == 1
    disabled = api.patch(path, json={"status": "disabled"}, headers={"If-Match": tag})
    assert (disabled.status_code, disabled.json()["status"]) == (200, "disabled"), disabled.text


def test_policy_warning_of_a_nas_changes_reads_only() -> None:
    shown = NasDetail.model_construct(name="North", notes=[])
    noted, renamed = shown.model_copy(update={"notes": ["x"]}), shown.model_copy(update={"name": "South"})
    states = [compute_etag(each).partition("-")[0] for each in (shown, noted, renamed)]
    assert states[0] == states[1] != states[2]
    assert compute_etag(shown) != compute_etag(noted)


def test_etag_hides_what_the_caller_cannot_see(api: httpx.Client, tag: str) -> None:
    other = api.get(PATH.replace("alpha", "nobody"), headers={"If-None-Match": "*"})
    assert other.status_code == 404
