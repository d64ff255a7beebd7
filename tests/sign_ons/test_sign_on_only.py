"""Members who may come in by their organisation's provider alone; and pages that send somebody else's browser there."""

from collections.abc import Callable

import httpx
import pytest

from api.main import create_app
from nac.accounts.owners import Owner
from nac.members import service as members
from tests.accounts.conftest import Field, Within, whole
from tests.api.served import served, settings_of_public
from tests.api.v1.conftest import MakeToken
from tests.postgres import Database
from tests.sign_in.conftest import EMAIL, Browser, code_of
from tests.sign_ons.conftest import Hostile, SetUp, begin, by_hostile, come_back

MakeBrowser = Callable[[], Browser]
MSP = "/msps/acme"
RULES = f"{MSP}/sign-in-rules"
ONLY = {"two_factors": False, "sign_on_only": True}


@pytest.fixture
def ann(within: Within, field: Field, make_person) -> None:
    """With a password of her own; manages acme's members, and those of bolt and of acme's tenant alpha."""
    make_person()
    make_person("bob@example.com")
    for owner, role in ((field.acme, "msp-admin"), (field.bolt, "msp-admin"), (field.alpha, "tenant-admin")):
        with within(owner) as session:
            members.create_member(session, **whole(owner), email=EMAIL, role=role)
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email="bob@example.com", role="msp-admin")


def come_in(mine: Browser, sign_on: dict, hostile: Hostile, place: str) -> None:
    """By the provider, and to the place."""
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    mine.good("GET", "/me")
    mine.good("GET", place)


def test_members_come_in_by_the_provider_alone_once_somebody_has(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: Hostile, within: Within, field: Field
) -> None:
    own = browser()
    own.sign_in()
    assert own.good("GET", RULES) == {"two_factors": False, "sign_on_only": False, "local_account": None}
    assert own.refused("PUT", RULES, ONLY) == (409, "conflict")
    sign_on = set_up(MSP, hostile.issuer)
    assert own.refused("PUT", RULES, ONLY) == (409, "sign-on-not-proven")
    mine = browser()
    come_in(mine, sign_on, hostile, MSP)
    # It is the newest settings that have to work, and the person has to have come in there.
    set_up(MSP, hostile.issuer, trusts_email=True)
    assert own.refused("PUT", RULES, ONLY) == (409, "sign-on-not-proven")
    come_in(mine, sign_on, hostile, MSP)
    assert own.good("PUT", RULES, ONLY)["sign_on_only"]

    for path in (MSP, f"{MSP}/members", "/tenants/bravo"):
        assert own.refused("GET", path) == (403, "sign-on-needed")
        mine.good("GET", path)
    # What others have given is theirs.
    for path in ("/msps/bolt", "/tenants/alpha"):
        own.good("GET", path)
    # The way back is not cut.
    assert mine.refused("DELETE", f"{MSP}/sign-on") == (409, "conflict")
    changed = {"issuer": "https://elsewhere.example", "client_id": "admit", "client_secret": "x"}
    assert mine.refused("PUT", f"{MSP}/sign-on", changed) == (409, "conflict")
    # Bob has a password and has come in by it: he is no manager who could come in.
    with within(field.acme) as session:
        found = members.get_by_email(session, owner=field.acme, email=EMAIL)
        assert found is not None
    assert mine.refused("DELETE", f"{MSP}/members/{found.membership.id}") == (409, "last-manager")
    # An older client says nothing of it.
    assert mine.good("PUT", RULES, {"two_factors": False})["sign_on_only"]
    mine.good("PUT", RULES, {"two_factors": False, "sign_on_only": False})
    own.good("GET", MSP)


def test_one_named_account_comes_in_with_two_factors(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: Hostile, client: httpx.Client, make_token: MakeToken
) -> None:
    bob, mine = browser(), browser()
    bob.sign_in("bob@example.com")
    named = ONLY | {"local_account": "bob@example.com"}
    sign_on = set_up(MSP, hostile.issuer)
    come_in(mine, sign_on, hostile, MSP)
    bob.good("GET", MSP)
    for wrong in ("bob@example.com", "nobody@example.com"):
        refused = mine.ask("PUT", RULES, ONLY | {"local_account": wrong})
        assert (refused.status_code, refused.json()["place"]) == (422, "local_account")
    secret = bob.good("POST", "/me/totp")["secret"]
    bob.good("POST", "/me/totp/confirmation", {"code": code_of(secret)})
    assert mine.good("PUT", RULES, named)["local_account"] == "bob@example.com"
    # Confirmed with the app, the sign-in has two factors.
    bob.good("GET", MSP)
    weak = browser()
    weak.sign_in()
    assert weak.refused("GET", MSP) == (403, "sign-on-needed")
    # A platform operator is not the MSP's to shut out.
    operator = {"Authorization": f"Bearer {make_token(Owner())}"}
    assert client.get("/v1/msps/acme", headers=operator).status_code == 200
    assert mine.good("PUT", RULES, ONLY | {"local_account": ""})["local_account"] is None
    assert bob.refused("GET", MSP) == (403, "sign-on-needed")


def test_rule_of_a_tenant_is_of_its_own_members(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: Hostile, client: httpx.Client, make_token: MakeToken
) -> None:
    sign_on = set_up("/tenants/alpha", hostile.issuer)
    mine, bob = browser(), browser()
    come_in(mine, sign_on, hostile, "/tenants/alpha")
    mine.good("PUT", "/tenants/alpha/sign-in-rules", ONLY)
    bob.sign_in("bob@example.com")
    bob.good("GET", "/tenants/alpha")
    operator = {"Authorization": f"Bearer {make_token(Owner())}"}
    platform = client.put("/v1/platform/sign-in-rules", json=ONLY, headers=operator)
    assert (platform.status_code, platform.json()["place"]) == (422, "sign_on_only")


def test_callback_of_an_attacker_signs_nobody_in_elsewhere(
    browser: MakeBrowser, set_up: SetUp, ann, hostile: Hostile
) -> None:
    """Login CSRF: the attacker's own answer, opened in the browser of somebody who is signed in nowhere."""
    sign_on = set_up(MSP, hostile.issuer)
    attacker, fresh, waiting = browser(), browser(), browser()
    asked = begin(attacker, sign_on)
    hostile.nonce = asked["nonce"]
    begin(waiting, sign_on)
    for victim in (fresh, waiting):
        victim.headers["Sec-Fetch-Site"] = "cross-site"
        answer = come_back(victim, sign_on, asked["state"])
        assert (answer.status_code, answer.json()["code"]) == (401, "sign-on-not-begun")
        assert "admit" not in victim.cookies
        assert victim.refused("GET", "/me")[0] == 401
    assert not hostile.forms


def test_page_of_another_site_begins_nothing_that_the_person_has_not_asked_for(
    client: httpx.Client, set_up: SetUp, hostile: Hostile
) -> None:
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


def test_state_is_kept_in_a_cookie_of_this_host_alone(
    database: Database, tmp_path, set_up: SetUp, hostile: Hostile
) -> None:
    sign_on = set_up(MSP, hostile.issuer)
    settings = settings_of_public(
        database,
        tmp_path,
        ADMIT_OUTBOUND_NETWORKS="127.0.0.0/8",
        ADMIT_PORTAL_URL="https://admit.example.com",
    )
    with served(create_app(settings)) as client:
        answer = client.get(f"/v1/sign-on/{sign_on['id']}/begin")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    told = {each.strip().lower() for each in rest.split(";")[1:]}
    assert name == "__Host-admit-sign-on"
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= told
    assert not any(each.startswith("domain") for each in told)
