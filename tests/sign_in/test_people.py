"""Accounts of users, managed by an operator of the platform."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import text

from nac.accounts.members import service as members
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.grants import Owner
from tests.accounts.conftest import whole
from tests.api.v1.conftest import MakeToken
from tests.sign_in.conftest import EMAIL, PASSWORD, Browser, MakePerson
from tests.sign_in.test_sign_in import with_totp

MakeBrowser = Callable[[], Browser]
PEOPLE = "/v1/platform/people"
Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(client: httpx.Client, make_token: MakeToken) -> Ask:
    """Send a request as an operator of the platform, or with fewer permissions."""
    operator = make_token(Owner())

    def send(method: str, path: str = "", body: object = None, token: str = operator) -> httpx.Response:
        return client.request(method, f"{PEOPLE}{path}", json=body, headers={"Authorization": f"Bearer {token}"})

    return send


def test_users_are_listed_in_pages(ask: Ask, make_person: MakePerson) -> None:
    for name in ("ann", "bob", "eve_x", "evelyn"):
        make_person(f"{name}@example.com", "")
    first = ask("GET", "?limit=3").json()
    rest = ask("GET", f"?limit=3&after={first['next']}").json()
    assert [each["email"].partition("@")[0] for each in first["items"] + rest["items"]] == [
        "ann",
        "bob",
        "eve_x",
        "evelyn",
    ]
    assert [each["email"] for each in ask("GET", "?text=EVE_").json()["items"]] == ["eve_x@example.com"]
    assert ask("GET", "?status=disabled").json()["items"] == []
    assert ask("GET", "/00000000-0000-0000-0000-000000000001").status_code == 404
    added = [ask("POST", "", {"email": "New@Example.com", "name": "New"}).json() for _ in range(2)]
    assert added[0] == added[1]
    again = ask("POST", "", {"email": "new@example.com"})
    assert again.headers["etag"] == ask("GET", f"/{added[0]['id']}").headers["etag"]
    assert (added[0]["email"], added[0]["has_password"]) == ("new@example.com", False)


def test_operator_manages_an_account(ask, browser, ann, within, field, owner_engine) -> None:
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email=EMAIL, role="auditor")
    mine = browser()
    mine.sign_in()
    with_totp(mine)
    shown = ask("GET", f"/{ann.id}")
    details = shown.json()
    assert (details["methods"], [each["role"] for each in details["memberships"]]) == (["totp"], ["auditor"])
    assert details["sessions"][0]["factors"] == ["password", "totp"]
    assert ask("DELETE", f"/{ann.id}/factors").status_code == 204
    assert mine.refused("GET", "/me") == (401, "sign-in-over")
    # Only the password remains.
    assert mine.sign_in()["state"] == "signed-in"
    assert ask("DELETE", f"/{ann.id}/sessions").status_code == 204
    assert mine.refused("GET", "/me") == (401, "sign-in-over")
    mine.sign_in()
    assert ask("PATCH", f"/{ann.id}", {"status": "disabled"}).json()["status"] == "disabled"
    assert mine.refused("GET", "/me") == (401, "sign-in-over")
    assert mine.refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD})[0] == 401
    assert ask("PATCH", f"/{ann.id}", {"status": "active"}).json()["status"] == "active"
    mine.sign_in()
    mailed = ask("POST", f"/{ann.id}/password-link", {}).json()
    assert (mailed["url"], mailed["token"]) == (None, None)
    link = ask("POST", f"/{ann.id}/password-link", {"mail": False}).json()
    assert link["url"] == f"http://localhost:8460/new-password/{link['token']}"
    assert mine.ask("POST", "/sign-in/new-password", {"token": link["token"], "password": PASSWORD}).status_code == 204
    with owner_engine.connect() as connection:
        told = connection.execute(text("SELECT action, after::text FROM audit_log WHERE actor LIKE 'token:%'")).all()
        assert connection.scalar(text("SELECT count(*) FROM mails WHERE recipient = :who"), {"who": EMAIL}) == 1
    assert {each[0] for each in told} >= {
        "person.reset-factors",
        "person.disable",
        "person.enable",
        "password-link.make",
        "sign-in.end-all",
    }
    assert link["token"] not in str(told)


def test_account_reset_needs_the_target_permissions(ask, make_token, within, ann, field) -> None:
    few = make_token(Owner(), "person.read", "person.manage")
    # The permission suffices to reset a user without permissions.
    assert ask("POST", f"/{ann.id}/password-link", {"mail": False}, token=few).status_code == 201
    with within(field.alpha) as session:
        members.create_member(session, **whole(field.alpha), email=EMAIL, role="help-desk")
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


def test_last_operator_stays_and_needs_a_confirmation(ask, browser, ann, make_person, within, owner_engine) -> None:
    with within(Owner()) as session:
        members.create_member(session, **whole(Owner()), email=EMAIL, role="platform-operator")
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE memberships SET accepted_at = now()"))
    disable = ("PATCH", f"/{ann.id}", {"status": "disabled"})
    assert ask(*disable).json()["code"] == "last-manager"
    bob = make_person("bob@example.com")
    with within(Owner()) as session:
        members.create_member(session, **whole(Owner()), email=bob.email, role="platform-operator")
    mine = browser()
    mine.sign_in()
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE sign_ins SET confirmed_at = confirmed_at - interval '11 minutes'"))
    path = f"/platform/people/{bob.id}"
    assert mine.ask("GET", path).status_code == 200
    assert mine.refused("PATCH", path, {"status": "disabled"}) == (403, "confirmation-needed")
    mine.good("POST", "/me/confirmation", {"password": PASSWORD})
    mine.good("PATCH", path, {"status": "disabled"})
    # The user is now the only operator who can sign in.
    assert ask(*disable).json()["code"] == "last-manager"
