"""Accounts of users, managed by an operator of the platform."""

from collections.abc import Callable

import httpx
import pytest

from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.owners import Owner
from tests.api.v1.conftest import MakeToken
from tests.sign_in.conftest import EMAIL, PASSWORD

PEOPLE = "/v1/platform/people"
Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(client: httpx.Client, make_token: MakeToken) -> Ask:
    """Send a request as an operator of the platform, or with fewer permissions."""
    operator = make_token(Owner())

    def send(method: str, path: str = "", body: object = None, token: str = operator) -> httpx.Response:
        return client.request(method, f"{PEOPLE}{path}", json=body, headers={"Authorization": f"Bearer {token}"})

    return send


def test_users_are_listed_in_pages(ask, make_person):
    for name in ("ann", "bob", "eve_x", "evelyn"):
        make_person(f"{name}@example.com", "")
    first = ask("GET", "?limit=3").json()
    rest = ask("GET", f"?limit=3&after={first['next']}").json()
    names = [each["email"].partition("@")[0] for each in first["items"] + rest["items"]]
    assert names == ["ann", "bob", "eve_x", "evelyn"]
    assert [each["email"] for each in ask("GET", "?text=EVE_").json()["items"]] == ["eve_x@example.com"]
    assert ask("GET", "?status=disabled").json()["items"] == []
    assert ask("GET", "/00000000-0000-0000-0000-000000000001").status_code == 404
    added = [ask("POST", "", {"email": "New@Example.com", "name": "New"}).json() for _ in range(2)]
    assert added[0] == added[1]
    again = ask("POST", "", {"email": "new@example.com"})
    assert again.headers["etag"] == ask("GET", f"/{added[0]['id']}").headers["etag"]
    assert (added[0]["email"], added[0]["has_password"]) == ("new@example.com", False)


def test_operator_manages_an_account(ask, browser, ann, field, add_member, sql):
    add_member(field.acme, EMAIL)
    mine = browser()
    mine.sign_in()
    mine.add_totp()
    details = ask("GET", f"/{ann.id}").json()
    assert (details["methods"], [each["role"] for each in details["memberships"]]) == (["totp"], ["auditor"])
    assert details["sessions"][0]["factors"] == ["password", "totp"]
    assert ask("DELETE", f"/{ann.id}/factors").status_code == 204
    assert mine.has_ended()
    # Only the password remains.
    assert mine.sign_in()["state"] == "signed-in"
    assert ask("DELETE", f"/{ann.id}/sessions").status_code == 204
    assert mine.has_ended()
    mine.sign_in()
    assert ask("PATCH", f"/{ann.id}", {"status": "disabled"}).json()["status"] == "disabled"
    assert mine.has_ended()
    assert mine.refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD})[0] == 401
    assert ask("PATCH", f"/{ann.id}", {"status": "active"}).json()["status"] == "active"
    mine.sign_in()
    mailed = ask("POST", f"/{ann.id}/password-link", {}).json()
    assert (mailed["url"], mailed["token"]) == (None, None)
    link = ask("POST", f"/{ann.id}/password-link", {"mail": False}).json()
    assert link["url"] == f"http://localhost:8460/new-password/{link['token']}"
    assert mine.ask("POST", "/sign-in/new-password", {"token": link["token"], "password": PASSWORD}).status_code == 204
    assert len(sql("SELECT FROM mails WHERE recipient = :who", who=EMAIL)) == 1
    told = sql("SELECT action, after::text FROM audit_log WHERE actor LIKE 'token:%'")
    changes = {"person.reset-factors", "person.disable", "person.enable"}
    assert {each[0] for each in told} >= changes | {"password-link.make", "sign-in.end-all"}
    assert link["token"] not in str(told)


def test_account_reset_needs_the_target_permissions(ask, make_token, ann, field, add_member):
    few = make_token(Owner(), "person.read", "person.manage")
    # The permission suffices to reset a user without permissions.
    assert ask("POST", f"/{ann.id}/password-link", {"mail": False}, token=few).status_code == 201
    add_member(field.alpha, EMAIL, "help-desk")
    for method, path, body in (
        ("POST", "/password-link", {"mail": False}),
        ("DELETE", "/factors", None),
        ("DELETE", "/sessions", None),
        ("PATCH", "", {"status": "disabled"}),
    ):
        answer = ask(method, f"/{ann.id}{path}", body, token=few)
        assert (answer.status_code, answer.json()["code"]) == (403, "permission-missing"), (method, path)
    enough = make_token(Owner(), "person.manage", *BUILT_IN_ROLES["help-desk"].permissions)
    assert ask("DELETE", f"/{ann.id}/sessions", token=enough).status_code == 204


def test_last_operator_stays_and_needs_a_confirmation(ask, browser, ann, make_person, add_member, sql):
    add_member(Owner(), EMAIL, "platform-operator")
    sql("UPDATE memberships SET accepted_at = now()")
    disable = ("PATCH", f"/{ann.id}", {"status": "disabled"})
    assert ask(*disable).json()["code"] == "last-manager"
    bob = make_person("bob@example.com")
    add_member(Owner(), bob.email, "platform-operator")
    mine = browser()
    mine.sign_in()
    sql("UPDATE sign_ins SET confirmed_at = confirmed_at - interval '11 minutes'")
    path = f"/platform/people/{bob.id}"
    assert mine.ask("GET", path).status_code == 200
    assert mine.refused("PATCH", path, {"status": "disabled"}) == (403, "confirmation-needed")
    mine.good("POST", "/me/confirmation", {"password": PASSWORD})
    mine.good("PATCH", path, {"status": "disabled"})
    # The user is now the only operator who can sign in.
    assert ask(*disable).json()["code"] == "last-manager"
