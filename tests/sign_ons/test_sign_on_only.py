"""Members who must sign in through their organisation's provider, its page, and cross-site attacks on its callback."""

import re

import pytest

from api.main import create_app
from nac.accounts.members import service as members
from nac.core.access.grants import Owner
from nac.kit.ids import MspId, TenantId
from tests.accounts.conftest import AddMember, Field
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.tenancy import Platform, make_tenant
from tests.sign_in.conftest import EMAIL, Browser
from tests.sign_ons.conftest import MSP, SECRET, HostileProvider, begin, by_hostile, return_to_admit

BOB = "bob@example.com"
RULES = f"{MSP}/sign-in-rules"
ONLY = {"two_factors": False, "sign_on_only": True}


@pytest.fixture
def ann(add_member: AddMember, field: Field, make_person) -> None:
    """A user with a password, who manages the members of acme, bolt and acme's tenant alpha. Bob manages acme too."""
    make_person()
    make_person(BOB)
    for owner, role in ((field.acme, "msp-admin"), (field.bolt, "msp-admin"), (field.alpha, "tenant-admin")):
        add_member(owner, EMAIL, role)
    add_member(field.acme, BOB, "msp-admin")


def sign_in_through_provider(mine: Browser, sign_on: dict, hostile: HostileProvider, place: str) -> None:
    """Sign in through the provider, for the page `place`."""
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    mine.good("GET", "/me")
    mine.good("GET", place)


def test_sso_only_takes_effect_after_one_successful_sign_in(browser, set_up, ann, hostile, within, field):
    own = browser()
    own.sign_in()
    assert own.good("GET", RULES) == {"two_factors": False, "sign_on_only": False, "local_account": None}
    assert own.refused("PUT", RULES, ONLY) == (409, "conflict")
    sign_on = set_up(MSP, hostile.issuer)
    assert own.refused("PUT", RULES, ONLY) == (409, "sign-on-not-proven")
    mine = browser()
    sign_in_through_provider(mine, sign_on, hostile, MSP)
    # The newest settings must work, and the user must have signed in with them.
    set_up(MSP, hostile.issuer, trusts_email=True)
    assert own.refused("PUT", RULES, ONLY) == (409, "sign-on-not-proven")
    sign_in_through_provider(mine, sign_on, hostile, MSP)
    assert own.good("PUT", RULES, ONLY)["sign_on_only"]

    for path in (MSP, f"{MSP}/members", "/tenants/bravo"):
        assert own.refused("GET", path) == (403, "sign-on-needed")
        mine.good("GET", path)
    # Grants of other owners are not affected.
    for path in ("/msps/bolt", "/tenants/alpha"):
        own.good("GET", path)
    # The user can still switch the rule off.
    assert mine.refused("DELETE", f"{MSP}/sign-on") == (409, "conflict")
    changed = {"issuer": "https://elsewhere.example", "client_id": "admit", "client_secret": "x"}
    assert mine.refused("PUT", f"{MSP}/sign-on", changed) == (409, "conflict")
    # Bob has signed in with a password, so Bob is no manager who could sign in through the provider.
    with within(field.acme) as session:
        found = members.get_by_email(session, owner=field.acme, email=EMAIL)
        assert found is not None
    assert mine.refused("DELETE", f"{MSP}/members/{found.membership.id}") == (409, "last-manager")
    # An older client omits the field.
    assert mine.good("PUT", RULES, {"two_factors": False})["sign_on_only"]
    mine.good("PUT", RULES, {"two_factors": False, "sign_on_only": False})
    own.good("GET", MSP)


def test_break_glass_account_signs_in_with_two_factors(browser, set_up, ann, hostile, client, headers_of):
    bob, mine = browser(), browser()
    bob.sign_in(BOB)
    named = ONLY | {"local_account": BOB}
    sign_on = set_up(MSP, hostile.issuer)
    sign_in_through_provider(mine, sign_on, hostile, MSP)
    bob.good("GET", MSP)
    for wrong in (BOB, "nobody@example.com"):
        refused = mine.ask("PUT", RULES, ONLY | {"local_account": wrong})
        assert (refused.status_code, refused.json()["place"]) == (422, "local_account")
    bob.add_totp()
    assert mine.good("PUT", RULES, named)["local_account"] == BOB
    # After the confirmation with the app, the sign-in has two factors.
    bob.good("GET", MSP)
    weak = browser()
    weak.sign_in()
    assert weak.refused("GET", MSP) == (403, "sign-on-needed")
    # The MSP cannot lock an operator of the platform out.
    assert client.get("/v1/msps/acme", headers=headers_of(Owner())).status_code == 200
    assert mine.good("PUT", RULES, ONLY | {"local_account": ""})["local_account"] is None
    assert bob.refused("GET", MSP) == (403, "sign-on-needed")


def test_tenant_rule_applies_only_to_its_own_members(browser, set_up, ann, hostile, client, headers_of):
    sign_on = set_up("/tenants/alpha", hostile.issuer)
    mine, bob = browser(), browser()
    sign_in_through_provider(mine, sign_on, hostile, "/tenants/alpha")
    mine.good("PUT", "/tenants/alpha/sign-in-rules", ONLY)
    bob.sign_in(BOB)
    bob.good("GET", "/tenants/alpha")
    platform = client.put("/v1/platform/sign-in-rules", json=ONLY, headers=headers_of(Owner()))
    assert (platform.status_code, platform.json()["place"]) == (422, "sign_on_only")


def test_attacker_callback_signs_nobody_in(browser, set_up, ann, hostile):
    """Login CSRF: a signed-out browser opens the attacker's callback URL."""
    sign_on = set_up(MSP, hostile.issuer)
    attacker, fresh, waiting = browser(), browser(), browser()
    asked = begin(attacker, sign_on)
    hostile.nonce = asked["nonce"]
    begin(waiting, sign_on)
    for victim in (fresh, waiting):
        victim.headers["Sec-Fetch-Site"] = "cross-site"
        answer = return_to_admit(victim, sign_on, asked["state"])
        assert (answer.status_code, answer.json()["code"]) == (401, "sign-on-not-begun")
        assert "admit" not in victim.cookies
        assert victim.refused("GET", "/me")[0] == 401
    assert not hostile.forms


def test_cross_site_page_cannot_begin_a_sign_in(client, set_up, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    path = f"/v1/sign-on/{sign_on['id']}/begin?next=/x"
    for site in ("cross-site", "same-site"):
        answer = client.get(path, headers={"Sec-Fetch-Site": site})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
        assert hostile.issuer.removeprefix("https://") in answer.text
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert f'href="{path}"' in answer.text
    for site in ("same-origin", "none"):
        assert client.get(path, headers={"Sec-Fetch-Site": site}).status_code == 303


def test_state_cookie_is_bound_to_this_host(database, tmp_path, set_up, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    own = {"ADMIT_OUTBOUND_NETWORKS": "127.0.0.0/8", "ADMIT_PORTAL_URL": "https://admit.example.com"}
    with serve_app(create_app(settings_of_public(database, tmp_path, **own))) as client:
        answer = client.get(f"/v1/sign-on/{sign_on['id']}/begin")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    told = {each.strip().lower() for each in rest.split(";")[1:]}
    assert name == "__Host-admit-sign-on"
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= told
    assert not any(each.startswith("domain") for each in told)


@pytest.mark.parametrize("name", ["acme", " ACME "])
def test_slug_redirects_to_the_provider(client, set_up, hostile, name):
    sign_on = set_up("/msps/acme", hostile.issuer)
    shown = client.get("/sign-in/company", params={"name": name})
    begin = f"/v1/sign-on/{sign_on['id']}/begin"
    assert (shown.status_code, re.findall('href="([^"]+)"', shown.text)) == (200, [begin])
    # The redirect goes directly to the provider, because this origin served the page.
    on = client.get(begin, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False)
    assert (on.status_code, on.headers["location"].startswith(hostile.issuer)) == (303, True)


def test_owner_without_sso_looks_like_an_unknown_one(client, set_up, hostile):
    set_up("/msps/acme", hostile.issuer)
    told = set()
    for name in ("bolt", "alpha", "nobody", "", "x" * 300, '"><script>'):
        shown = client.get("/sign-in/company", params={"name": name})
        assert "<script>" not in shown.text.replace('<script src="/sign-in/passkey.js">', ""), name
        told.add((shown.status_code, *re.findall('role="alert">([^<]+)', shown.text)))
    assert len(told) == 1
    assert next(iter(told))[0] == 404


def test_tenant_is_found_if_the_same_named_msp_has_no_sso(client, app_engine, field, headers_of, hostile, certificates):
    assert field.acme.msp_id is not None
    tenant = make_tenant(app_engine, Platform(MspId(field.acme.msp_id), 0), "bolt")
    body = {"issuer": hostile.issuer, "client_id": "admit", "client_secret": SECRET}
    body["ca_certificate"] = certificates.authority
    headers = headers_of(Owner(tenant_id=TenantId(tenant.id)))
    made = client.put("/v1/tenants/bolt/sign-on", json=body, headers=headers)
    assert made.status_code == 200, made.text
    shown = client.get("/sign-in/company", params={"name": "bolt"})
    assert (shown.status_code, f"/v1/sign-on/{made.json()['id']}/begin" in shown.text) == (200, True)


@pytest.mark.parametrize("method", ["totp", "passkey", "nothing"])
def test_rejected_second_factor_without_its_form_is_reported(client, method):
    headers = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    for given in ({}, {"challenge": "x", "code": "1"}):
        shown = client.post(f"/sign-in/{method}", data=given, headers=headers)
        assert shown.status_code >= 400
        assert re.findall('role="alert">([^<]+)', shown.text), shown.text
