"""A user is added, signs in, creates tokens and is removed, through the API."""

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from nac.kit.clock import utc_now
from tests.accounts.conftest import Field, Within, field, within  # noqa: F401 -- fixtures
from tests.api.v1.conftest import MakeToken, make_token  # noqa: F401 -- fixtures
from tests.sign_in.conftest import EMAIL, Browser

MakeBrowser = Callable[[], Browser]


@pytest.fixture
def admin(client: httpx.Client, make_token: MakeToken, field: Field) -> Callable[..., httpx.Response]:  # noqa: F811
    """Send requests with a token of the tenant alpha."""
    headers = {"Authorization": f"Bearer {make_token(field.alpha)}"}
    return lambda method, path, **given: client.request(method, f"/v1/tenants/alpha{path}", headers=headers, **given)


def test_new_member_status_is_hidden_until_acceptance(admin, browser, ann):
    mine = browser()
    mine.sign_in()
    mine.good("PATCH", "/me", {"name": "Ann"})
    added = [
        admin("POST", "/members", json={"email": email, "role": "auditor"}).json()
        for email in (EMAIL, "nobody@example.com")
    ]
    differs = {"id", "email", "created_at"}
    known, unknown = ({name: value for name, value in each.items() if name not in differs} for each in added)
    assert known == unknown
    assert known | {"name": "", "status": "invited"} == known

    def name_and_status() -> tuple[str, str]:
        (found,) = [each for each in admin("GET", "/members").json()["items"] if each["email"] == EMAIL]
        return found["name"], found["status"]

    # The admin who added the account cannot see that the user signed in and listed their places.
    mine.sign_in()
    mine.good("GET", "/me/places")
    assert name_and_status() == ("", "invited")
    mine.good("GET", "/tenants/alpha")
    assert name_and_status() == ("Ann", "active")


def test_tokens_of_a_user_end_with_the_membership(admin, browser, ann, client):
    member = admin("POST", "/members", json={"email": EMAIL, "role": "tenant-admin"}).json()
    mine = browser()
    mine.sign_in()
    permissions = ["member.read", "token.manage", "token.read"]
    wanted = {"name": "x", "permissions": permissions, "expires_at": (utc_now() + timedelta(days=9)).isoformat()}
    first = mine.good("POST", "/tenants/alpha/tokens", wanted)
    later = wanted | {"expires_at": (utc_now() + timedelta(days=99)).isoformat()}
    headers = [{"Authorization": f"Bearer {first['token']}"}]
    child = client.post("/v1/tenants/alpha/tokens", json=later, headers=headers[0]).json()
    assert (child["maker"], child["parent_id"], child["expires_at"]) == (
        f"person:{EMAIL}",
        first["id"],
        first["expires_at"],
    )
    headers.append({"Authorization": f"Bearer {child['token']}"})

    def seen() -> list[int]:
        return [client.get("/v1/tenants/alpha/members", headers=each).status_code for each in headers]

    assert seen() == [200, 200]
    assert admin("DELETE", f"/members/{member['id']}").status_code == 204
    assert seen() == [401, 401]
    listed = admin("GET", "/tokens").json()["items"]
    assert {each["maker"] for each in listed} == {None, f"person:{EMAIL}"}
    # The user has not accepted the second invitation yet, but their token works again.
    admin("POST", "/members", json={"email": EMAIL, "role": "tenant-admin"})
    assert seen() == [200, 200]
    assert admin("DELETE", f"/tokens/{first['id']}").status_code == 204
    assert seen() == [401, 401]
