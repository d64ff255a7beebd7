"""Members who must sign in through their organisation's provider, and cross-site attacks on its callback."""

from collections.abc import Callable

import httpx
import pytest

from api.main import create_app
from nac.accounts.members import service as members
from nac.core.access.grants import Owner
from tests.accounts.conftest import Field, Within, whole
from tests.api.app_server import serve_app, settings_of_public
from tests.api.v1.conftest import MakeToken
from tests.postgres import Database
from tests.sign_in.conftest import EMAIL, Browser, code_of
from tests.sign_ons.conftest import HostileProvider, SetUp, begin, by_hostile, return_to_admit

MakeBrowser = Callable[[], Browser]
MSP = "/msps/acme"
RULES = f"{MSP}/sign-in-rules"
ONLY = {"two_factors": False, "sign_on_only": True}


@pytest.fixture
def ann(within: Within, field: Field, make_person) -> None:
    """A user with a password, who manages the members of acme, bolt and acme's tenant alpha."""
    make_person()
    make_person("bob@example.com")
    for owner, role in ((field.acme, "msp-admin"), (field.bolt, "msp-admin"), (field.alpha, "tenant-admin")):
        with within(owner) as session:
            members.create_member(session, **whole(owner), email=EMAIL, role=role)
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email="bob@example.com", role="msp-admin")


def sign_in_through_provider(mine: Browser, sign_on: dict, hostile: HostileProvider, place: str) -> None:
    """Sign in through the provider, for the page `place`."""
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    mine.good("GET", "/me")
    mine.good("GET", place)


def test_sso_only_takes_effect_after_one_successful_sign_in(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: HostileProvider, within: Within, field: Field
) -> None:
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


def test_break_glass_account_signs_in_with_two_factors(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: HostileProvider, client: httpx.Client, make_token: MakeToken
) -> None:
    bob, mine = browser(), browser()
    bob.sign_in("bob@example.com")
    named = ONLY | {"local_account": "bob@example.com"}
    sign_on = set_up(MSP, hostile.issuer)
    sign_in_through_provider(mine, sign_on, hostile, MSP)
    bob.good("GET", MSP)
    for wrong in ("bob@example.com", "nobody@example.com"):
        refused = mine.ask("PUT", RULES, ONLY | {"local_account": wrong})
        assert (refused.status_code, refused.json()["place"]) == (422, "local_account")
    secret = bob.good("POST", "/me/totp")["secret"]
    bob.good("POST", "/me/totp/confirmation", {"code": code_of(secret)})
    assert mine.good("PUT", RULES, named)["local_account"] == "bob@example.com"
    # After the confirmation with the app, the sign-in has two factors.
    bob.good("GET", MSP)
    weak = browser()
    weak.sign_in()
    assert weak.refused("GET", MSP) == (403, "sign-on-needed")
    # The MSP cannot lock an operator of the platform out.
    operator = {"Authorization": f"Bearer {make_token(Owner())}"}
    assert client.get("/v1/msps/acme", headers=operator).status_code == 200
    assert mine.good("PUT", RULES, ONLY | {"local_account": ""})["local_account"] is None
    assert bob.refused("GET", MSP) == (403, "sign-on-needed")


def test_tenant_rule_applies_only_to_its_own_members(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: HostileProvider, client: httpx.Client, make_token: MakeToken
) -> None:
    sign_on = set_up("/tenants/alpha", hostile.issuer)
    mine, bob = browser(), browser()
    sign_in_through_provider(mine, sign_on, hostile, "/tenants/alpha")
    mine.good("PUT", "/tenants/alpha/sign-in-rules", ONLY)
    bob.sign_in("bob@example.com")
    bob.good("GET", "/tenants/alpha")
    operator = {"Authorization": f"Bearer {make_token(Owner())}"}
    platform = client.put("/v1/platform/sign-in-rules", json=ONLY, headers=operator)
    assert (platform.status_code, platform.json()["place"]) == (422, "sign_on_only")


def test_attacker_callback_signs_nobody_in(browser: MakeBrowser, set_up: SetUp, ann, hostile: HostileProvider) -> None:
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


def test_cross_site_page_cannot_begin_a_sign_in(client: httpx.Client, set_up: SetUp, hostile: HostileProvider) -> None:
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


def test_state_cookie_is_bound_to_this_host(
    database: Database, tmp_path, set_up: SetUp, hostile: HostileProvider
) -> None:
    sign_on = set_up(MSP, hostile.issuer)
    settings = settings_of_public(
        database,
        tmp_path,
        ADMIT_OUTBOUND_NETWORKS="127.0.0.0/8",
        ADMIT_PORTAL_URL="https://admit.example.com",
    )
    with serve_app(create_app(settings)) as client:
        answer = client.get(f"/v1/sign-on/{sign_on['id']}/begin")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    told = {each.strip().lower() for each in rest.split(";")[1:]}
    assert name == "__Host-admit-sign-on"
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= told
    assert not any(each.startswith("domain") for each in told)
