"""Bulk operations: all rows or none, during the request or as a job."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, func, select

from api.v1.bulk import PutEndpoints
from nac.inventory import groups as all_groups
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import AuditEntry, Endpoint
from tests.api.v1.responses import error_paths, refusal
from tests.statements import counted

TENANT = "/v1/tenants/alpha"
BULK = f"{TENANT}/endpoints/bulk"
JOBS = f"{TENANT}/jobs"


def mac(number: int) -> str:
    return f"00:00:5e:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


def items(count: int, **more: object) -> list[dict[str, Any]]:
    return [{"mac": mac(number), "name": f"Printer {number}"} | more for number in range(count)]


def audited(engine: Engine, tenant_id: TenantId) -> dict[str, int]:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        found = session.execute(select(AuditEntry.action, func.count()).group_by(AuditEntry.action))
        return {action: count for action, count in found if not action.startswith(("tenant", "job", "import", "site"))}


def test_small_bulk_is_stored_with_an_audit_entry_each(
    api: httpx.Client, app_engine: Engine, tenant_id: TenantId
) -> None:
    body = {"operation": "put", "items": items(3, groups=["printers"]), "make_groups": True}
    done = api.post(BULK, json=body)
    assert done.status_code == 200, done.text
    assert done.json()["added"] == 3
    assert int(done.headers["admit-position"]) > 0
    body["items"] = [*items(2, groups=["printers"]), {"mac": mac(2), "status": "blocked"}, {"mac": mac(3)}]
    again = api.post(BULK, json=body | {"existing": "update"}).json()
    assert {name: count for name, count in again.items() if count} == {"added": 1, "changed": 1, "unchanged": 2}
    kept = api.post(BULK, json=body | {"existing": "keep"}).json()
    assert {name: count for name, count in kept.items() if count} == {"kept": 4}
    assert [each["status"] for each in api.get(f"{TENANT}/endpoints").json()["items"]].count("blocked") == 1
    assert audited(app_engine, tenant_id) == {"endpoint.add": 4, "endpoint.set": 1, "endpoint-group.create": 1}


def test_every_invalid_row_is_listed_and_nothing_stored(api: httpx.Client) -> None:
    body = {
        "operation": "put",
        "items": [
            {"mac": mac(1)},
            {"mac": "xyz"},
            {"mac": mac(1)},
            {"mac": "02:00:00:00:00:01"},
            {"mac": mac(2), "groups": ["nobody-made-it"], "valid_until": "2001-01-01T00:00:00Z"},
        ],
    }
    answer = api.post(BULK, json=body)
    assert refusal(answer) == (422, "rows-refused"), answer.text
    told = answer.json()
    wanted = (*(f"items[{row}].mac" for row in (1, 2, 3)), "items[4].groups", "items[4].valid_until")
    assert error_paths(answer) == [*wanted]
    assert_sentences(told["mistakes"])
    # A name that resembles the path of an error.
    assert told["mistakes"][1]["detail"] == "Another row already has this address. See items[0]."
    assert any("private address" in each.get("remedy", "") for each in told["mistakes"])
    assert api.get(f"{TENANT}/endpoints").json()["items"] == []


def assert_sentences(mistakes: list[dict[str, str]]) -> None:
    """Check that each message names the error and the remedy, without shell commands."""
    for each in mistakes:
        said = f"{each['detail']} {each['remedy']}"
        assert re.fullmatch(r"['A-Z0-9(].*\.", each["detail"]), said
        assert re.fullmatch(r"[A-Z].*\.", each["remedy"]), said
        assert not re.search(r"--[a-z]|\./admit", said), said


def test_listed_errors_are_limited_and_all_are_counted(api: httpx.Client) -> None:
    told = api.post(BULK, json={"operation": "put", "items": [{"mac": "xyz"}] * 500}).json()
    assert (len(told["mistakes"]), told["detail"]) == (200, "500 mistakes.")
    for body in ({}, {"operation": "burn"}, {"operation": "put", "items": []}, {"operation": "block", "macs": []}):
        assert api.post(BULK, json=body).status_code == 422


@pytest.mark.parametrize(("good", "listed"), [(0, 200), (200, 1)])
def test_many_invalid_rows_are_reported_in_part(api: httpx.Client, good: int, listed: int) -> None:
    """Writing 400,000 errors into one response would block the event loop, and all other requests, for a second."""
    wrong = dict.fromkeys(map("field-{}".format, range(40)), 0)
    body = {"operation": "put", "items": items(good) + items(10_000 - good, **wrong)}
    with pytest.raises(ValidationError) as refused:
        PutEndpoints.model_validate(body)
    assert refused.value.error_count() <= 10_000
    answer = api.post(BULK, json=body)
    paths = error_paths(answer)
    assert (answer.status_code, len(paths)) == (422, listed)
    assert paths[0] == ("items[0].field-0" if listed > 1 else "items")


def test_bulk_action_applies_to_all_or_none(api: httpx.Client) -> None:
    api.post(BULK, json={"operation": "put", "items": items(4, groups=["a", "b"]), "make_groups": True})
    api.post(f"{TENANT}/endpoint-groups", json={"name": "c"})
    some = [mac(0), mac(1)]

    def shown(field: str) -> list[Any]:
        return [each[field] for each in api.get(f"{TENANT}/endpoints").json()["items"]]

    for operation, groups, found in (
        ("join-groups", ["c"], ["a", "b", "c"]),
        ("leave-groups", ["a"], ["b", "c"]),
        ("set-groups", ["a"], ["a"]),
    ):
        done = api.post(BULK, json={"operation": operation, "macs": some, "groups": groups})
        assert (done.status_code, done.json()["changed"]) == (200, 2), done.text
        assert shown("groups") == [found, found, ["a", "b"], ["a", "b"]]
    unknown = api.post(BULK, json={"operation": "set-groups", "macs": some, "groups": ["x"]})
    assert unknown.json()["code"] == "unknown-group"
    for operation in ("block", "unblock", "delete"):
        wrong = api.post(BULK, json={"operation": operation, "macs": [mac(0), mac(77), "x"]})
        assert error_paths(wrong) == ["macs[1]", "macs[2]"], wrong.text
    assert api.post(BULK, json={"operation": "block", "macs": some}).json()["blocked"] == 2
    assert shown("status") == ["blocked", "blocked", "active", "active"]
    assert api.post(BULK, json={"operation": "unblock", "macs": some[:1]}).json()["unblocked"] == 1
    assert api.post(BULK, json={"operation": "delete", "macs": some}).json()["removed"] == 2
    assert shown("mac") == [mac(2), mac(3)]


def test_large_bulk_is_a_job_with_a_location(
    api: httpx.Client, app_engine: Engine, tenant_id: TenantId, work: Callable[[], bool]
) -> None:
    body = {"operation": "put", "items": items(2_000, groups=["printers"]), "make_groups": True}
    key = {"Idempotency-Key": "once"}
    begun = api.post(BULK, json=body, headers=key)
    assert begun.status_code == 202, begun.text
    assert begun.headers["location"] == f"{JOBS}/{begun.json()['id']}"
    again = api.post(BULK, json=body, headers=key)
    assert (again.status_code, again.json()["id"]) == (202, begun.json()["id"])
    assert api.get(begun.headers["location"]).json()["state"] == "queued"
    with counted(Engine) as statements:
        assert work()
    job = api.get(begun.headers["location"]).json()
    assert (job["state"], job["done"], job["total"]) == ("done", 2_000, 2_000), job
    assert job["result"]["added"] == 2_000
    assert len(statements) < 60
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert session.scalar(select(func.count()).select_from(Endpoint)) == 2_000
    assert audited(app_engine, tenant_id)["endpoint.add"] == 2_000
    # When the client sends all rows again, each row has an error, and nothing changes.
    other = api.post(BULK, json=body).json()
    assert work()
    failed = api.get(f"{JOBS}/{other['id']}").json()
    assert (failed["state"], failed["problem"]["code"]) == ("failed", "rows-refused")
    assert (len(failed["problem"]["mistakes"]), failed["problem"]["detail"]) == (200, "2000 mistakes.")


def test_users_are_created_and_updated_in_bulk(api: httpx.Client, work: Callable[[], bool]) -> None:
    users = f"{TENANT}/users"
    body: dict[str, Any] = {"operation": "put", "make_groups": True, "mschap": True}
    some = [{"name": f"user-{number}", "password": "correct horse", "groups": ["staff"]} for number in range(3)]
    assert api.post(f"{users}/bulk", json=body | {"items": some}).json()["added"] == 3
    rows = [*some[:1], {"name": "new"}, {"name": "x", "password": "y"}]
    wrong = api.post(f"{users}/bulk", json=body | {"items": rows})
    assert error_paths(wrong) == ["items[0].name", "items[1].password", "items[2].password"], wrong.text
    change = {"items": [{"name": "user-0", "disabled": True}, {"name": "user-1"}], "existing": "update"}
    done = api.post(f"{users}/bulk", json=body | change).json()
    assert (done["changed"], done["unchanged"]) == (1, 1)
    shown = api.get(f"{users}/user-0").json()
    assert (shown["disabled"], shown["groups"], shown["mschap"]) == (True, ["staff"], True)
    many = [{"name": f"many-{number}", "password": "correct horse"} for number in range(51)]
    begun = api.post(f"{users}/bulk", json=body | {"items": many})
    assert begun.status_code == 202
    assert "correct horse" not in begun.text
    assert work()
    assert api.get(begun.headers["location"]).json()["result"]["added"] == 51


def test_nases_are_created_and_updated_in_bulk(api: httpx.Client) -> None:
    nases = f"{TENANT}/nases"
    some = [{"name": f"Switch {n}", "identifier": f"sw-{n}", "address": f"192.0.2.{n}"} for n in range(1, 4)]
    assert api.post(f"{nases}/bulk", json={"operation": "put", "items": some}).json()["added"] == 3
    items = [
        {"name": "Switch 1", "identifier": "sw-1", "vendor": "cisco", "secret": "a-secret-of-its-own-1"},
        {"name": "Switch 2", "address": "192.0.2.2"},
        {"name": "New", "identifier": "sw-9"},
    ]
    wrong = api.post(f"{nases}/bulk", json={"operation": "put", "items": [{"name": "x", "site": "nowhere"}, items[1]]})
    assert error_paths(wrong) == ["items[0].site", "items[1]"], wrong.text
    # A NAS with a secret needs an address. The row has no address, but the stored NAS has one.
    done = api.post(f"{nases}/bulk", json={"operation": "put", "items": items, "existing": "update"})
    assert done.status_code == 200, done.text
    assert {name: count for name, count in done.json().items() if count} == {"added": 1, "changed": 1, "unchanged": 1}
    shown = {each["identifier"]: each for each in api.get(nases).json()["items"]}
    assert (shown["sw-1"]["own_secret"], shown["sw-1"]["address"]) == (True, "192.0.2.1")


def test_bulk_group_job_has_a_constant_statement_count(
    api: httpx.Client, app_engine: Engine, tenant_id: TenantId, work: Callable[[], bool]
) -> None:
    def rows(groups: int) -> list[dict[str, Any]]:
        return [each | {"groups": [f"g{i}-{n}" for n in range(groups)]} for i, each in enumerate(items(12))]

    body = {"operation": "put", "make_groups": True}
    with counted(Engine) as one:
        assert api.post(BULK, json=body | {"items": rows(1)}).status_code == 200
    with counted(Engine) as many:
        assert api.post(BULK, json=body | {"items": rows(20), "existing": "update"}).status_code == 200
    assert len(many) < len(one) + 10
    large = api.post(BULK, json=body | {"items": rows(90), "existing": "update"})
    assert large.status_code == 202
    assert work()
    job = api.get(f"{JOBS}/{large.json()['id']}").json()
    assert job["state"] == "done", job
    assert job["result"]["changed"] == 12


def test_number_of_groups_is_limited(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_groups, "MAX_GROUPS", 3)
    body = {"operation": "put", "make_groups": True, "items": items(1, groups=["a", "b"])}
    assert api.post(BULK, json=body).status_code == 200
    refused = api.post(BULK, json=body | {"items": items(1, groups=["c", "d"]), "existing": "update"})
    assert refusal(refused) == (409, "too-many-groups")
    assert api.post(f"{TENANT}/endpoint-groups", json={"name": "c"}).status_code == 201
    assert api.post(f"{TENANT}/endpoint-groups", json={"name": "d"}).json()["code"] == "too-many-groups"
    monkeypatch.setattr(all_groups, "MAX_NEW_GROUPS", 1)
    refused = api.post(BULK, json=body | {"items": items(1, groups=["e", "f"]), "existing": "update"})
    assert "Create at most 1" in refused.text
