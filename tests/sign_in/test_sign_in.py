"""The steps of a sign-in over HTTP."""

import re

import pytest

from nac.accounts.people import service as people
from nac.accounts.sign_in import links, passwords
from nac.kit.clock import epoch_seconds
from nac.kit.db import PersonScope, PlatformScope, get_process_engine, session_scope
from tests.factories.tenancy import ACTOR
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, NEW_PASSWORD, PASSWORD, REFUSED, code_of
from tests.statements import counted


def test_password_signs_in_without_other_factors(browser, ann):
    mine = browser()
    assert mine.refused("GET", "/me") == (401, "not-signed-in")
    assert mine.sign_in(f" {EMAIL.upper()} ".strip())["state"] == "signed-in"
    me = mine.good("GET", "/me")
    assert (me["email"], me["factors"], me["has_two_factors"], me["methods"]) == (EMAIL, ["password"], False, [])
    mine.good("POST", "/sign-out")
    assert mine.refused("GET", "/me") == (401, "not-signed-in")


def test_app_code_is_the_second_step_and_works_once(browser, mine):
    secret = mine.add_totp()
    assert mine.good("GET", "/me")["factors"] == ["password", "totp"]
    other = browser()
    needed = other.sign_in()
    assert (needed["state"], needed["methods"]) == ("factors-needed", ["totp"])
    assert other.refused("GET", "/me") == (401, "not-signed-in")
    # The clock may advance to another step meanwhile.
    at = epoch_seconds()
    step = {"challenge": needed["challenge"], "code": code_of(secret, at=at)}
    assert other.refused("POST", "/sign-in/totp", step | {"code": "000000"}) == REFUSED
    other.good("POST", "/sign-in/totp", step)
    assert other.good("GET", "/me")["has_two_factors"]
    # The used code, the used challenge and an earlier code are invalid.
    third = browser()
    again = {"challenge": third.sign_in()["challenge"]}
    earlier, used, following = ({"code": code_of(secret, at=at, steps=steps)} for steps in (-1, 0, 1))
    for body in (again | used, again | earlier, step | following):
        assert third.refused("POST", "/sign-in/totp", body) == REFUSED
    third.good("POST", "/sign-in/totp", again | following)


def test_recovery_code_works_once(browser, mine):
    mine.add_totp()
    codes = mine.good("POST", "/me/recovery-codes")["codes"]
    assert len(set(codes)) == 10
    for number, expected in ((0, 200), (0, 401), (1, 200)):
        other = browser()
        needed = other.sign_in()
        assert needed["methods"] == ["totp", "recovery-code"]
        typed = codes[number].upper().replace("-", " ")
        answer = other.ask("POST", "/sign-in/recovery-code", {"challenge": needed["challenge"], "code": typed})
        assert answer.status_code == expected, answer.text
    mine.good("POST", "/me/recovery-codes")
    other = browser()
    body = {"challenge": other.sign_in()["challenge"], "code": codes[2]}
    assert other.refused("POST", "/sign-in/recovery-code", body) == REFUSED


def test_second_step_page_offers_all_methods_after_an_error(client, mine):
    mine.add_totp()
    code = mine.good("POST", "/me/recovery-codes")["codes"][0]

    def hidden(shown) -> dict[str, str]:
        return dict(re.findall('type="hidden" name="([^"]+)" value="([^"]*)"', shown.text))

    asked = client.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    refused = client.post("/sign-in/totp", data=hidden(asked) | {"code": "000000"})
    assert (asked.status_code, refused.status_code) == (200, 401)
    for shown, alerts, anew in ((asked, 0, 0), (refused, 1, 1)):
        counts = [shown.text.count(text) for text in ("Confirm with your second factor", "autofocus", 'role="alert"')]
        assert counts == [1, 1, alerts]
        assert re.findall('action="([^"]+)"', shown.text) == ["/sign-in/totp", "/sign-in/recovery-code"]
        assert shown.text.count('<a href="/sign-in">') == anew
    assert client.post("/sign-in/recovery-code", data=hidden(refused) | {"code": code}).status_code == 303


def test_passkey_without_a_password_is_two_factors(browser, mine):
    key = Authenticator()
    mine.add_passkey(key)
    other = browser()
    other.good("POST", "/sign-in/passkey", other.use_passkey(key))
    me = other.good("GET", "/me")
    assert (me["factors"], me["has_two_factors"]) == (["passkey"], True)
    # The password now also requires the passkey.
    third = browser()
    needed = third.sign_in()
    assert needed["methods"] == ["passkey"]
    third.good("POST", "/sign-in/passkey", third.use_passkey(key, needed["challenge"]))
    assert third.good("GET", "/me")["factors"] == ["passkey", "password"]
    # A counter that goes back belongs to a cloned authenticator.
    key.count -= 1
    assert third.refused("POST", "/sign-in/passkey", third.use_passkey(key)) == REFUSED


def test_key_without_user_verification_is_second_factor_only(browser, mine):
    key = Authenticator(verifies=False)
    mine.add_passkey(key)
    other = browser()
    assert other.refused("POST", "/sign-in/passkey", other.use_passkey(key)) == REFUSED
    other.good("POST", "/sign-in/passkey", other.use_passkey(key, other.sign_in()["challenge"]))
    assert other.good("GET", "/me")["factors"] == ["password", "security-key"]


def test_authenticator_response_works_once_at_this_server(browser, mine):
    key, other = Authenticator(counts=False), browser()
    mine.add_passkey(key)
    body = other.use_passkey(key)
    other.good("POST", "/sign-in/passkey", body)
    assert browser().refused("POST", "/sign-in/passkey", body) == REFUSED
    key.origin = "https://admit.example.net"
    assert other.refused("POST", "/sign-in/passkey", other.use_passkey(key)) == REFUSED
    key.origin = "http://localhost:8460"
    asked = other.good("POST", "/sign-in/passkey/options", {})
    options = asked["options"]
    for credential in (
        key.get(options | {"rpId": "example.net"}),
        key.get(options | {"challenge": "AAAA"}),
        key.get(options, userHandle="AAAA"),
        key.get(options, signature="AAAA"),
        key.get(options, authenticatorData="!"),
        key.get(options, clientDataJSON=""),
        key.get(options, clientDataJSON=5),
        {},
        {"id": 5},
        {"id": "AAAA", "response": None},
        {"id": key.credential_id.hex()},
    ):
        body = {"challenge": asked["challenge"], "credential": credential}
        assert other.refused("POST", "/sign-in/passkey", body) == REFUSED, credential


def test_challenge_of_one_step_is_rejected_by_another(browser, mine):
    key = Authenticator()
    mine.add_passkey(key)
    code = code_of(mine.add_totp())
    asked = mine.good("POST", "/sign-in/passkey/options", {})["challenge"]
    needed = browser().sign_in()["challenge"]
    for challenge in (asked, needed[:-2] + "AA", "x", mine.cookies["admit-device"]):
        assert browser().refused("POST", "/sign-in/totp", {"challenge": challenge, "code": code}) == REFUSED
    confirming = mine.good("POST", "/me/confirmation/passkey/options")
    body = {"challenge": confirming["challenge"], "credential": key.get(confirming["options"])}
    assert browser().refused("POST", "/sign-in/passkey", body) == REFUSED
    mine.good("POST", "/me/confirmation/passkey", body)


def test_newest_link_sets_one_strong_password(browser, ann, app_engine):
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        older, newer = (links.create_link(session, actor=ACTOR, person=ann).text for _ in range(2))
    for token, password, expected in (
        (older, NEW_PASSWORD, 410),
        ("x", NEW_PASSWORD, 410),
        (newer, "short", 422),
        (newer, NEW_PASSWORD, 204),
        (newer, PASSWORD, 410),
    ):
        answer = browser().ask("POST", "/sign-in/new-password", {"token": token, "password": password})
        assert answer.status_code == expected, answer.text
    assert browser().sign_in(password=NEW_PASSWORD)["state"] == "signed-in"


def test_new_password_ends_a_pending_sign_in(browser, mine):
    secret = mine.add_totp()
    other = browser()
    challenge = other.sign_in()["challenge"]
    mine.good("PUT", "/me/password", {"password": NEW_PASSWORD})
    body = {"challenge": challenge, "code": code_of(secret)}
    assert other.refused("POST", "/sign-in/totp", body) == REFUSED


def test_disabled_user_is_signed_out_and_stays_out(browser, ann, mine, app_engine):
    key = Authenticator()
    mine.add_passkey(key)
    challenge = browser().sign_in()["challenge"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        people.set_disabled(session, actor=ACTOR, person_id=ann.id, disabled=True)
    assert mine.has_ended()
    other = browser()
    wrong, right = (other.ask("POST", "/sign-in", {"email": EMAIL, "password": each}) for each in ("wrong", PASSWORD))
    assert (right.status_code, right.content) == (wrong.status_code, wrong.content)
    assert other.refused("POST", "/sign-in/passkey", other.use_passkey(key)) == REFUSED
    assert other.refused("POST", "/sign-in/passkey/options", {"challenge": challenge}) == REFUSED
    with session_scope(PlatformScope(), engine=app_engine) as session:
        people.set_disabled(session, actor=ACTOR, person_id=ann.id, disabled=False)
    # Pending sign-ins remain ended.
    assert mine.has_ended()


@pytest.mark.parametrize("email", ["nobody@example.com", "invited@example.com"])
def test_response_does_not_reveal_accounts(browser, ann, make_person, email):
    make_person("invited@example.com", "")
    known = browser().ask("POST", "/sign-in", {"email": EMAIL, "password": "wrong"})
    other = browser().ask("POST", "/sign-in", {"email": email, "password": "wrong"})
    assert (known.status_code, known.content) == (other.status_code, other.content)
    assert set(known.headers) == set(other.headers)
    empty = browser().ask("POST", "/sign-in", {"email": email, "password": ""})
    assert empty.content == known.content


def test_work_does_not_reveal_accounts(browser, make_person, costs_in_use, monkeypatch):
    make_person("bea@example.com")
    hashed = []
    is_password = passwords.verify_password
    monkeypatch.setattr(passwords, "verify_password", lambda *given: hashed.append(given[1]) or is_password(*given))
    sent = []
    for email in ("bea@example.com", "nobody@example.com"):
        with counted(get_process_engine()) as statements:
            browser().refused("POST", "/sign-in", {"email": email, "password": "wrong"})
        sent.append(statements)
    assert sent[0] == sent[1]
    # The cost of the comparison is equal.
    assert len(hashed) == 2
    assert {each.rpartition("$")[0].rpartition("$")[0] for each in hashed} == {"$argon2id$v=19$m=19456,t=2,p=1"}
