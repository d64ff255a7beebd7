"""Single sign-on: the validation of tokens, and the users that a provider can sign in."""

from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from urllib.parse import parse_qs, unquote_plus, urlsplit

import httpx

from nac.accounts.members import service as members
from nac.kit.clock import epoch_seconds
from tests.accounts.conftest import whole
from tests.sign_in.conftest import EMAIL
from tests.sign_ons.conftest import (
    MSP,
    SECRET,
    at_real_provider,
    begin,
    by_hostile,
    forget_providers,
    return_to_admit,
)

VERIFIED = {"email": EMAIL, "email_verified": True}


def test_real_provider_signs_a_member_in(browser, set_up, ann, real_provider, certificates):
    sign_on = set_up(MSP, real_provider)
    mine = browser()
    asked = begin(mine, sign_on, "/acme/endpoints")
    assert (asked["code_challenge_method"], asked["redirect_uri"]) == ("S256", sign_on["callback_url"])
    path = at_real_provider(asked, certificates, VERIFIED)
    answer = mine.ask("GET", path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/acme/endpoints"), answer.text
    me = mine.good("GET", "/me")
    assert (me["email"], me["factors"], me["is_own"], me["has_two_factors"]) == (EMAIL, ["sign-on"], False, False)


def test_provider_of_one_owner_reaches_no_other(browser, set_up, ann, hostile, field):
    own = browser()
    own.sign_in()
    places = {each["slug"] for each in own.good("GET", "/me/places")["items"]}
    assert places == {"acme", "alpha", "bravo", "bolt", "foreign"}
    mine = browser()
    assert by_hostile(mine, set_up(MSP, hostile.issuer), hostile).status_code == 303
    seen = {(each["kind"], each["slug"]): each["permissions"] for each in mine.good("GET", "/me/places")["items"]}
    assert set(seen) == {("msp", "acme"), ("tenant", "alpha"), ("tenant", "bravo")}
    # In alpha, only grants of acme apply, and not grants of alpha itself.
    assert "endpoint.read" in seen["tenant", "alpha"]
    assert "endpoint.manage" not in seen["tenant", "alpha"]
    assert mine.ask("GET", "/tenants/alpha").status_code == 200
    assert mine.refused("GET", "/msps/bolt/tenants") == (404, "msp-not-found")
    assert mine.refused("GET", "/tenants/foreign") == (404, "tenant-not-found")
    tenants = browser()
    assert by_hostile(tenants, set_up("/tenants/alpha", hostile.issuer), hostile).status_code == 303
    assert [each["slug"] for each in tenants.good("GET", "/me/places")["items"]] == ["alpha"]
    assert tenants.refused("GET", "/tenants/bravo") == (404, "tenant-not-found")
    assert tenants.refused("GET", "/msps/acme/tenants") == (404, "msp-not-found")


def test_provider_sign_in_cannot_change_the_account(browser, set_up, ann, hostile):
    own = browser()
    own.sign_in()
    mine = browser()
    assert by_hostile(mine, set_up(MSP, hostile.issuer), hostile).status_code == 303
    assert mine.good("GET", "/me")["methods"] is None
    for asked in (
        ("PATCH", "/me", {"name": "Eve"}),
        ("PUT", "/me/password", {"password": "a password of eve's"}),
        ("POST", "/me/totp", None),
        ("DELETE", "/me/totp", None),
        ("GET", "/me/passkeys", None),
        ("POST", "/me/passkeys/options", None),
        ("POST", "/me/recovery-codes", None),
        ("DELETE", "/me/sessions", None),
        ("POST", "/me/confirmation", {"password": "correct horse battery"}),
    ):
        assert mine.refused(*asked) == (403, "account-of-another"), asked
    [only] = mine.good("GET", "/me/sessions")["items"]
    assert only["here"]
    others = [each["id"] for each in own.good("GET", "/me/sessions")["items"] if each["factors"] == ["password"]]
    assert mine.refused("DELETE", f"/me/sessions/{others[0]}") == (404, "sign-in-not-found")


_WRONG_CLAIMS: tuple[dict[str, object], ...] = (
    {"nonce": "another"},
    {"nonce": None},
    {"nonce": 5},
    {"aud": "another"},
    {"aud": ["admit", "another"]},
    {"iss": "https://elsewhere.example"},
    {"exp": epoch_seconds() - 120},
    {"nbf": epoch_seconds() + 3600},
    {"email_verified": False},
    {"email_verified": "true"},
    {"email": "nobody@example.com"},
    {"email": "@"},
    {"email": ["ann@example.com"]},
    {"email": None},
    {"sub": ""},
    {"sub": "x" * 300},
    {"sub": 5},
)


def test_token_with_invalid_claims_is_rejected(browser, set_up, ann, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    mine = browser()
    for changed in _WRONG_CLAIMS:
        hostile.claims = changed
        hostile.without = ("nonce",) if "nonce" in changed and changed["nonce"] is None else ()
        assert by_hostile(mine, sign_on, hostile).status_code == 403, changed
    hostile.claims = {}
    for claim in ("nonce", "aud", "iss", "exp", "iat", "sub", "email_verified"):
        hostile.without = (claim,)
        assert by_hostile(mine, sign_on, hostile).status_code == 403, claim
    assert mine.refused("GET", "/me")[0] == 401


def test_userinfo_email_needs_the_same_subject(browser, set_up, ann, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    hostile.without = ("email", "email_verified")
    for subject, verified, expected in (("1", True, 303), ("2", True, 403), ("1", False, 403)):
        hostile.userinfo = {"sub": subject, "email": EMAIL, "email_verified": verified}
        assert by_hostile(browser(), sign_on, hostile).status_code == expected


def test_response_is_bound_to_its_browser_and_provider(browser, set_up, ann, hostile):
    acme, bolt = set_up(MSP, hostile.issuer), set_up("/msps/bolt", hostile.issuer)
    mine = browser()
    asked = begin(mine, acme)
    hostile.nonce = asked["nonce"]
    # A mix-up attack: the sign-in begins at acme's provider, and the response claims to be from bolt's provider.
    assert return_to_admit(mine, bolt, asked["state"]).status_code == 401
    assert return_to_admit(mine, acme, "another").status_code == 401
    assert return_to_admit(mine, acme, "").status_code == 401
    assert return_to_admit(mine, acme, asked["state"], iss="https://elsewhere.example").status_code == 403
    assert return_to_admit(mine, acme, asked["state"], code="").status_code == 403
    assert return_to_admit(browser(), acme, asked["state"]).status_code == 401
    assert mine.refused("GET", "/me")[0] == 401
    assert return_to_admit(mine, acme, asked["state"], iss=hostile.issuer).status_code == 303
    form = hostile.forms[-1]
    challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
    assert challenge == asked["code_challenge"]
    # A provider that announces `iss` must send it.
    forget_providers()
    hostile.discovery = {"authorization_response_iss_parameter_supported": True}
    assert by_hostile(mine, acme, hostile).status_code == 403


def test_endpoint_with_a_query_keeps_it(browser, set_up, hostile):
    endpoint = f"{hostile.issuer}/authorize?tenant=a%26b&empty="
    hostile.discovery = {"authorization_endpoint": endpoint}
    asked = begin(browser(), set_up(MSP, hostile.issuer))
    assert asked["at"].startswith(f"{endpoint}&response_type=code&client_id=admit&")
    assert (asked["tenant"], asked["response_type"]) == ("a&b", "code")


_WRONG_DISCOVERIES: tuple[dict[str, object], ...] = (
    {"issuer": "https://elsewhere.example"},
    {"token_endpoint": "http://127.0.0.1/token"},
    {"authorization_endpoint": "javascript:alert(1)"},
    {"jwks_uri": 5},
    {"token_endpoint": "https://169.254.169.254/"},
)


def test_provider_error_signs_nobody_in(browser, set_up, ann, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    mine = browser()
    for discovery in _WRONG_DISCOVERIES:
        forget_providers()
        hostile.discovery = discovery
        answer = mine.ask("GET", f"/sign-on/{sign_on['id']}/begin")
        if answer.status_code == 303:
            asked = parse_qs(urlsplit(answer.headers["location"]).query)
            answer = return_to_admit(mine, sign_on, asked["state"][0])
        assert (answer.status_code, answer.json()["code"]) == (503, "provider-unavailable"), discovery
        # Anonymous callers learn neither the place nor the reason of the failure.
        assert answer.json()["detail"] == "The provider is unavailable or sent an invalid response.", discovery


def test_redirect_to_another_site_is_rejected(browser, set_up, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    for to in ("https://e.example", "//e.example", "/\\e.example", "", "x", "/%0d%0aX:y", "/\t/e.example"):
        query = httpx.QueryParams({"next": to}) if "%" not in to else f"next={to}"
        assert browser().ask("GET", f"/sign-on/{sign_on['id']}/begin?{query}").status_code == 422, to


def test_auto_join_rule_adds_a_member_only_there(browser, set_up, within, field, hostile):
    joins = [
        {"role": "msp-technician", "group": "it", "tenants": ["alpha"]},
        {"role": "auditor", "domain": "corp.example"},
    ]
    sign_on = set_up(MSP, hostile.issuer, joins=joins)
    for number, (email, groups, role) in enumerate(
        (
            ("eve@other.example", [], None),
            ("eve@notcorp.example", ["IT"], None),
            ("eve@corp.example.evil.example", [], None),
            ("bob@corp.example", "x", "auditor"),
            ("bob@corp.example", ["it"], "auditor"),
            ("tom@other.example", ["x", "it"], "msp-technician"),
        )
    ):
        subject = "bob" if email.startswith("bob") else str(number)
        hostile.claims = {"email": email, "groups": groups, "sub": subject}
        assert by_hostile(browser(), sign_on, hostile).status_code == (303 if role else 403), email
        with within(field.acme) as session:
            roles = {each.person.email: each.role for each in members.list_members(session, owner=field.acme)}
        assert roles.get(email) == role
    with within(field.bolt) as session:
        assert not members.list_members(session, owner=field.bolt)


def test_subject_stays_bound_to_its_user_and_address(browser, set_up, ann, within, field, hostile):
    sign_on = set_up(MSP, hostile.issuer)
    assert by_hostile(browser(), sign_on, hostile).status_code == 303
    hostile.claims = {"email": "ann.married@example.com"}
    mine = browser()
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    assert mine.good("GET", "/me")["email"] == EMAIL
    hostile.claims = {"sub": "2"}
    assert by_hostile(browser(), sign_on, hostile).status_code == 403
    with within(field.acme) as session:
        [member] = members.list_members(session, owner=field.acme)
        members.create_member(session, **whole(field.acme), email="boss@example.com", role="msp-admin")
        members.delete_member(session, **whole(field.acme), membership_id=member.membership.id)
    # The user is signed out at once, although still a member of another owner.
    assert mine.refused("GET", "/msps/acme/tenants") == (404, "msp-not-found")
    assert mine.good("GET", "/me/places")["items"] == []
    hostile.claims = {}
    assert by_hostile(browser(), sign_on, hostile).status_code == 403


def test_provider_sign_in_does_not_replace_another_user(browser, set_up, ann, make_person, hostile):
    make_person("bob@example.com")
    sign_on, mine = set_up(MSP, hostile.issuer), browser()
    mine.sign_in("bob@example.com")
    kept = mine.cookies["admit"]
    answer = by_hostile(mine, sign_on, hostile)
    assert (answer.status_code, answer.json()["code"]) == (409, "another-is-signed-in")
    assert mine.cookies["admit"] == kept
    assert mine.good("GET", "/me")["email"] == "bob@example.com"
    mine.good("POST", "/sign-out")
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    # The provider may sign in the user who is already signed in.
    assert by_hostile(mine, sign_on, hostile).status_code == 303
    assert mine.good("GET", "/me")["email"] == EMAIL


def test_provider_reports_whether_two_factors_were_used(browser, set_up, ann, hostile, client, headers_of, field):
    sign_on = set_up(MSP, hostile.issuer)
    rules = "/v1/msps/acme/sign-in-rules"
    assert client.put(rules, json={"two_factors": True}, headers=headers_of(field.acme)).status_code == 200
    mine = browser()
    by_hostile(mine, sign_on, hostile)
    assert mine.refused("GET", "/tenants/alpha") == (403, "second-factor-needed")
    hostile.claims = {"amr": ["pwd", "mfa"]}
    by_hostile(mine, sign_on, hostile)
    assert mine.ask("GET", "/tenants/alpha").status_code == 200
    hostile.claims = {}
    by_hostile(mine, set_up(MSP, hostile.issuer, counts_as_two=True), hostile)
    assert mine.ask("GET", "/tenants/alpha").status_code == 200


def test_owner_lists_and_ends_its_provider_sign_ins(browser, set_up, ann, hostile, client, headers_of, field):
    own, mine = browser(), browser()
    own.sign_in()
    by_hostile(mine, set_up(MSP, hostile.issuer), hostile)
    headers = headers_of(field.acme)
    [only] = client.get("/v1/msps/acme/sign-on/sessions", headers=headers).json()["items"]
    assert (only["email"], only["factors"]) == (EMAIL, ["sign-on"])
    path = f"/sign-on/sessions/{only['id']}"
    assert client.delete(f"/v1/msps/bolt{path}", headers=headers_of(field.bolt)).status_code == 404
    assert mine.ask("GET", "/me").status_code == 200
    assert client.delete(f"/v1/msps/acme{path}", headers=headers).status_code == 204
    assert mine.has_ended()
    by_hostile(mine, set_up(MSP, hostile.issuer), hostile)
    assert client.delete("/v1/msps/acme/sign-on", headers=headers).status_code == 204
    assert mine.has_ended()
    assert own.ask("GET", "/me").status_code == 200


def test_sso_setup_needs_all_permissions_and_hides_the_secret(client, set_up, hostile, headers_of, field):
    body = {"issuer": hostile.issuer, "client_id": "admit", "client_secret": "x"}
    few, path = headers_of(field.acme, "sign-on.manage", "member.manage"), "/v1/msps/acme/sign-on"
    assert client.put(path, json=body, headers=few).json()["code"] == "permission-missing"
    set_up(MSP, hostile.issuer)
    headers = headers_of(field.acme)
    shown = client.get(path, headers=headers).json()
    kept = {name: shown[name] for name in ("client_id", "ca_certificate")}
    for changed, expected in (
        ({"issuer": "https://elsewhere.example"}, (422, "client_secret")),
        ({"issuer": hostile.issuer, "ca_certificate": ""}, (422, "client_secret")),
        ({"issuer": "http://127.0.0.1"}, (422, "issuer")),
        ({"issuer": hostile.issuer, "joins": [{"role": "msp-admin"}]}, (422, "joins.0")),
        ({"issuer": hostile.issuer, "joins": [{"role": "tenant-admin", "domain": "a.example"}]}, (422, "role")),
        ({"issuer": hostile.issuer, "scope": "email"}, (422, "scope")),
    ):
        answer = client.put(path, json=kept | changed, headers=headers)
        assert (answer.status_code, answer.json()["place"]) == expected, answer.text
    assert client.put(path, json=kept | {"issuer": hostile.issuer}, headers=headers).status_code == 200


def test_client_secret_is_sent_as_rfc_6749_specifies(browser, set_up, ann, hostile):
    by_hostile(browser(), set_up(MSP, hostile.issuer), hostile)
    kind, _, shown = hostile.forms[-1]["authorization"].partition(" ")
    client_id, secret = b64decode(shown).decode().split(":")
    assert (kind, client_id, unquote_plus(secret)) == ("Basic", "admit", SECRET)
    assert "client_secret" not in hostile.forms[-1]
    hostile.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    forget_providers()
    by_hostile(browser(), set_up(MSP, hostile.issuer), hostile)
    assert (hostile.forms[-1]["client_secret"], hostile.forms[-1]["authorization"]) == (SECRET, "")
