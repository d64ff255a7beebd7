"""Users and groups through the API."""

import httpx
import pytest
from sqlalchemy import Engine, select

from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import AuditEntry
from tests.statements import counted

USERS = "/v1/tenants/alpha/users"
GROUPS = "/v1/tenants/alpha/user-groups"
PASSWORD = "correct horse"


def add(api: httpx.Client, name: str, **given: object) -> dict[str, object]:
    answer = api.post(USERS, json={"name": name, "password": PASSWORD} | given)
    assert answer.status_code == 201, answer.text
    made: dict[str, object] = answer.json()
    return made


def test_user_lifecycle_never_shows_a_password(api: httpx.Client, app_engine: Engine, tenant_id: TenantId) -> None:
    assert api.post(GROUPS, json={"name": "staff"}).status_code == 201
    made = add(api, "Ann", groups=["staff"], chap=True)
    address = f"{USERS}/{made['id']}"
    assert (made["name"], made["groups"], made["chap"], made["mschap"]) == ("ann", ["staff"], True, False)
    changed = api.patch(address, json={"disabled": True, "groups": []}).json()
    assert (changed["disabled"], changed["groups"]) == (True, [])
    assert api.patch(address, json={"disabled": False}).json()["disabled"] is False
    another = api.put(f"{address}/password", json={"password": "battery staple", "mschap": True})
    assert another.status_code == 200, another.text
    assert (another.json()["chap"], another.json()["mschap"]) == (True, True)
    assert api.put(f"{address}/password", json={"password": "short"}).json()["place"] == "password"
    assert api.delete(address, headers={"If-Match": '"other"'}).status_code == 412
    assert api.delete(address).status_code == 204
    assert api.get(address).json()["code"] == "user-not-found"
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action.startswith("user.")).order_by(AuditEntry.id)
        ).all()
        assert [entry.action for entry in entries] == [
            "user.create",
            "user.change",
            "user.change",
            "user.change-password",
            "user.remove",
        ]
        assert not any(word in str(vars(entry)) for entry in entries for word in (PASSWORD, "battery"))


def test_list_is_filtered_and_paged(api: httpx.Client) -> None:
    api.post(GROUPS, json={"name": "staff"})
    ann = add(api, "ann")
    api.patch(f"{USERS}/{ann['id']}", json={"disabled": True})
    add(api, "bert", groups=["staff"])
    add(api, "host/pc.example")
    for asked, found in (
        ({}, ["ann", "bert", "host/pc.example"]),
        ({"name": "ANN"}, ["ann"]),
        ({"text": "PC."}, ["host/pc.example"]),
        ({"group": "staff"}, ["bert"]),
        ({"disabled": "true"}, ["ann"]),
    ):
        names, after = [], ""
        while after is not None:
            page = api.get(USERS, params=asked | {"limit": 2, "after": after}).json()
            names += [each["name"] for each in page["items"]]
            after = page["next"]
        assert names == found


@pytest.mark.parametrize("noun", ["endpoint-groups", "user-groups"])
def test_group_is_created_listed_and_deleted(api: httpx.Client, noun: str) -> None:
    groups = f"/v1/tenants/alpha/{noun}"
    made = [api.post(groups, json={"name": name}) for name in ("b", "a/ c", "a")]
    assert [answer.status_code for answer in made] == [201] * 3
    assert api.post(groups, json={"name": "a"}).json()["code"] == "already-exists"
    page = api.get(groups, params={"limit": 2}).json()
    rest = api.get(groups, params={"after": page["next"]}).json()
    assert [each["name"] for each in page["items"] + rest["items"]] == ["a", "a/ c", "b"]
    address = f"{groups}/{made[0].json()['id']}"
    assert api.get(address).json() == made[0].json()
    assert api.delete(address).status_code == 204
    assert api.get(address).json()["code"] == "unknown-group"


def test_endpoint_group_has_a_rule_and_a_passphrase(api: httpx.Client) -> None:
    groups = "/v1/tenants/alpha/endpoint-groups"
    rule = {"attribute": "endpoint.vendor", "operator": "equals", "value": "Axis"}
    wrong = api.post(groups, json={"name": "cameras", "rule": {"attribute": "no.such", "operator": "is"}})
    assert (wrong.status_code, wrong.json()["place"]) == (422, "rule")
    made = api.post(groups, json={"name": "cameras", "rule": rule})
    assert made.status_code == 201, made.text
    assert (made.json()["rule"], made.json()["psk"]) == (rule, False)
    address = f"{groups}/{made.json()['id']}"
    assert api.patch(address, json={"rule": None}).json()["rule"] is None
    assert api.put(f"{address}/passphrase", json={"passphrase": "over the hills"}).json() == {"passphrase": None}
    assert len(api.put(f"{address}/passphrase", json={}).json()["passphrase"]) == 20
    assert api.get(address).json()["psk"] is True
    assert api.delete(f"{address}/passphrase").status_code == 204
    assert api.get(address).json()["psk"] is False


def test_page_of_many_users_takes_no_more_statements(api: httpx.Client) -> None:
    add(api, "ann")
    with counted(Engine) as one:
        api.get(USERS)
    for number in range(5):
        add(api, f"user-{number}")
    with counted(Engine) as many:
        assert len(api.get(USERS).json()["items"]) == 6
    assert len(many) == len(one)


def test_user_and_group_are_found_by_name_or_id(api: httpx.Client) -> None:
    group = api.post(GROUPS, json={"name": "Staff"}).json()
    made = add(api, "Ann@Corp", groups=["Staff"])
    # A name can look like an id. The API looks up the id first.
    other = add(api, str(made["id"]))
    for key in (made["id"], "ann@corp", "ANN@corp"):
        assert api.get(f"{USERS}/{key}").json() == made
    assert api.get(f"{USERS}/{other['id']}").json() == other
    assert api.patch(f"{USERS}/ann@corp", json={"disabled": True}).json()["disabled"] is True
    assert api.put(f"{USERS}/ann@corp/password", json={"password": "battery staple"}).status_code == 200
    for key in ("nobody", "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10", "x" * 253):
        assert api.get(f"{USERS}/{key}").json()["code"] == "user-not-found"
    assert api.delete(f"{USERS}/ann@corp").status_code == 204
    assert api.get(f"{GROUPS}/Staff").json() == api.get(f"{GROUPS}/{group['id']}").json() == group
    assert api.delete(f"{GROUPS}/Staff").status_code == 204
    assert api.get(f"{GROUPS}/Staff").json()["code"] == "unknown-group"
