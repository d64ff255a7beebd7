"""Users and groups."""

import httpx
import pytest

from tests.api.v1.responses import created, refusal

TENANT = "/v1/tenants/alpha"
USERS, GROUPS = f"{TENANT}/users", f"{TENANT}/user-groups"
PASSWORD = "correct horse"


def add(api: httpx.Client, name: str, **given: object) -> dict[str, object]:
    return created(api.post(USERS, json={"name": name, "password": PASSWORD} | given))


def test_user_lifecycle_never_shows_a_password(api: httpx.Client) -> None:
    created(api.post(GROUPS, json={"name": "staff"}))
    made = add(api, "Ann", groups=["staff"], chap=True)
    address = f"{USERS}/{made['id']}"
    assert (made["name"], made["groups"], made["chap"], made["mschap"]) == ("ann", ["staff"], True, False)
    changed = api.patch(address, json={"disabled": True, "groups": []}).json()
    assert (changed["disabled"], changed["groups"]) == (True, [])
    assert api.patch(address, json={"disabled": False}).json()["disabled"] is False
    another = api.put(f"{address}/password", json={"password": "battery staple", "mschap": True}).json()
    assert (another["chap"], another["mschap"]) == (True, True)
    assert api.put(f"{address}/password", json={"password": "short"}).json()["place"] == "password"
    assert api.delete(address).status_code == 204
    assert refusal(api.get(address)) == (404, "user-not-found")
    audited = api.get(f"{TENANT}/audit")
    actions = [each["action"] for each in audited.json()["items"] if each["action"].startswith("user.")]
    assert actions[::-1] == ["user.create", "user.change", "user.change", "user.change-password", "user.remove"]
    assert not any(word in audited.text for word in (PASSWORD, "battery"))


@pytest.mark.parametrize("noun", ["endpoint-groups", "user-groups"])
def test_group_is_created_found_and_deleted(api: httpx.Client, noun: str) -> None:
    groups = f"{TENANT}/{noun}"
    made = created(api.post(groups, json={"name": "Staff"}))
    assert api.post(groups, json={"name": "Staff"}).json()["code"] == "already-exists"
    assert api.get(f"{groups}/Staff").json() == api.get(f"{groups}/{made['id']}").json() == made
    assert api.delete(f"{groups}/Staff").status_code == 204
    for key in ("Staff", made["id"]):
        assert api.get(f"{groups}/{key}").json()["code"] == "unknown-group"


def test_user_is_found_by_name_or_id(api: httpx.Client) -> None:
    made = add(api, "Ann@Corp")
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
