"""Accounts of users managed by an operator of the platform, and their memberships, over HTTP."""

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import select, update

from nac.accounts.roles import BUILT_IN_ROLES
from nac.accounts.sign_in import rules
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PersonScope, session_scope
from nac.kit.permissions import PermissionLevel, permissions_at
from nac.models import Msp
from nac.onboarding import msp_lifecycle
from nac.onboarding.templates import service as templates
from tests.accounts.conftest import PLATFORM, Field
from tests.api.v1.conftest import MakeToken
from tests.factories.tenancy import ACTOR
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


@pytest.fixture
def admin(client: httpx.Client, headers_of, field: Field) -> Callable[..., httpx.Response]:
    """Send requests with a token of the tenant alpha."""
    headers = headers_of(field.alpha)
    return lambda method, path, **given: client.request(method, f"/v1/tenants/alpha{path}", headers=headers, **given)


def test_new_member_status_is_hidden_until_acceptance(admin, mine):
    mine.good("PATCH", "/me", {"name": "Ann"})
    added = [admin("POST", "/members", json={"email": email, "role": "auditor"}).json() for email in (EMAIL, "x@y.zz")]
    known, unknown = (each | dict.fromkeys(("id", "email", "created_at")) for each in added)
    assert known == unknown == known | {"name": "", "status": "invited"}

    def name_and_status() -> tuple[str, str]:
        (found,) = [each for each in admin("GET", "/members").json()["items"] if each["email"] == EMAIL]
        return found["name"], found["status"]

    # The admin who added the account cannot see that the user signed in and listed their places.
    mine.sign_in()
    mine.good("GET", "/me/places")
    assert name_and_status() == ("", "invited")
    mine.good("GET", "/tenants/alpha")
    assert name_and_status() == ("Ann", "active")


def test_tokens_of_a_user_end_with_the_membership(admin, mine, client):
    member = admin("POST", "/members", json={"email": EMAIL, "role": "tenant-admin"}).json()
    permissions = ["member.read", "token.manage", "token.read"]
    wanted = {"name": "x", "permissions": permissions, "expires_at": (utc_now() + timedelta(days=9)).isoformat()}
    first = mine.good("POST", "/tenants/alpha/tokens", wanted)
    later = wanted | {"expires_at": (utc_now() + timedelta(days=99)).isoformat()}
    headers = [{"Authorization": f"Bearer {first['token']}"}]
    child = client.post("/v1/tenants/alpha/tokens", json=later, headers=headers[0]).json()
    of_first = {"maker": f"person:{EMAIL}", "parent_id": first["id"], "expires_at": first["expires_at"]}
    assert child | of_first == child
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


def test_two_factors_are_required_for_an_msp_in_the_body(field, mine, add_member, within):
    add_member(field.acme, EMAIL, "msp-admin")
    with within(field.acme) as session:
        rules.update_rule(session, actor=ACTOR, owner=field.acme, two_factors=True, by=None)
    for path, body in (("/msps/acme/tenants", {}), ("/tenants", {"msp": "acme"}), ("/tenants", {})):
        assert mine.refused("POST", path, {"slug": "new"} | body) == (403, "second-factor-needed")


def test_partial_msp_member_sees_no_other_tenants_by_template(field, mine, add_member, within):
    add_member(field.acme, EMAIL, "msp-technician", tenants=["alpha"])
    whose = {"actor": ACTOR, "msp_id": field.acme.msp_id, "slug": "school"}
    held = permissions_at(PermissionLevel.TENANT)
    with within(field.acme) as session:
        templates.create_template(session, **whose, name="School")
        for slug in ("alpha", "bravo"):
            templates.follow_template(session, **whose, tenant=slug, overrides=[], held=lambda _: held)
    for path in ("tenants", "tenants?drift=true"):
        found = mine.good("GET", f"/msps/acme/templates/school/{path}")
        assert [each["tenant"] for each in found["items"]] == ["alpha"]


def test_tenants_of_all_grants_are_one_list(field, mine, add_member, within):
    """The grants are for chosen tenants of one MSP, for all of another, and for a tenant as its own member.

    Suspended MSPs hide their tenants.
    """

    def seen(**query: str) -> list[str]:
        found = mine.good("GET", f"/tenants?{urlencode({'sort': 'slug'} | query)}")
        return [each["slug"] for each in found["items"]]

    assert seen() == []
    add_member(field.acme, EMAIL, "msp-technician", tenants=["alpha"])
    assert seen() == ["alpha"]
    add_member(field.bravo, EMAIL)
    add_member(field.bolt, EMAIL, "msp-admin")
    assert seen() == ["alpha", "bravo", "foreign"]
    assert seen(sort="-slug", limit="2") == ["foreign", "bravo"]
    assert (seen(text="a"), seen(msp="bolt"), seen(msp="nothing")) == (["alpha", "bravo"], ["foreign"], [])
    assert seen(status="suspended") == []
    with within(PLATFORM) as session:
        msp_lifecycle.suspend_msp(session, actor=ACTOR, msp_id=field.acme.msp_id)
    # The MSP granted the first entry, and the tenant itself granted the other entry.
    assert seen() == ["bravo", "foreign"]
    with within(field.bolt) as session:
        rules.update_rule(session, actor=ACTOR, owner=field.bolt, two_factors=True, by=None)
    assert seen() == ["bravo"]


def test_tokens_list_the_tenants_of_their_owner(client, field, headers_of):
    def seen(*given) -> list[str]:
        return [each["slug"] for each in client.get("/v1/tenants", headers=headers_of(*given)).json()["items"]]

    for owner, slugs in (
        (PLATFORM, ["alpha", "bravo", "foreign"]),
        (field.acme, ["alpha", "bravo"]),
        (field.foreign, ["foreign"]),
    ):
        assert (seen(owner), seen(owner, "site.read")) == (slugs, [])


def test_grants_include_the_slugs_of_their_places(client, field, mine, add_member, headers_of):
    def summarise(grants: list[dict]) -> list[tuple]:
        return [(each["on"], each["msp"], each["tenant"], each["tenant_slugs"]) for each in grants]

    for owner, wanted in (
        (PLATFORM, ("platform", None, None, None)),
        (field.acme, ("msp", "acme", None, None)),
        (field.foreign, ("tenant", None, "foreign", None)),
    ):
        headers = headers_of(owner)
        assert summarise(client.get("/v1/grants", headers=headers).json()["grants"]) == [wanted]
        refused = client.get("/v1/me", headers=headers).json()
        assert (refused["code"], "listMyGrants" in refused["remedy"]) == ("no-person", True)
    assert mine.good("GET", "/grants")["grants"] == []
    add_member(field.acme, EMAIL, "msp-technician", tenants=["alpha"])
    add_member(field.foreign, EMAIL)
    found = summarise(mine.good("GET", "/grants")["grants"])
    assert sorted(found, key=str) == [("msp", "acme", None, ["alpha"]), ("tenant", None, "foreign", None)]


def test_user_sees_only_msps_of_their_memberships(ann, field, add_member, within, app_engine):
    for owner in (field.bravo, field.bolt):
        add_member(owner, EMAIL)
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        assert session.scalars(select(Msp.slug)).all() == ["bolt"]
        # The MSP is visible but read-only, as are the rows of its tenants.
        session.execute(update(Msp).values(name="x"))
    with within(field.bolt) as session:
        assert session.scalars(select(Msp.name)).all() != ["x"]
