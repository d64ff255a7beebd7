"""The steps of a sign-in over HTTP."""

from collections.abc import Callable

import pytest

from nac.accounts.people import service as people
from nac.accounts.sign_in import links, passwords
from nac.kit.clock import epoch_seconds
from nac.kit.db import PersonScope, PlatformScope, get_process_engine, session_scope
from tests.factories.tenancy import ACTOR
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, PASSWORD, Browser, code_of
from tests.statements import counted

MakeBrowser = Callable[[], Browser]


def with_totp(mine: Browser) -> str:
    secret = mine.good("POST", "/me/totp")["secret"]
    mine.good("POST", "/me/totp/confirmation", {"code": code_of(secret, steps=-1)})
    return secret


def with_passkey(mine: Browser, key: Authenticator) -> dict:
    asked = mine.good("POST", "/me/passkeys/options")
    body = {"challenge": asked["challenge"], "credential": key.create(asked["options"]), "name": "Key"}
    made = mine.ask("POST", "/me/passkeys", body)
    assert made.status_code == 201, made.text
    assert made.json() in mine.good("GET", made.headers["location"].removeprefix("/v1"))["items"]
    return made.json()


def by_passkey(mine: Browser, key: Authenticator, challenge: str | None = None) -> dict:
    asked = mine.good("POST", "/sign-in/passkey/options", {"challenge": challenge})
    return {"challenge": asked["challenge"], "credential": key.get(asked["options"])}


def test_password_signs_in_without_other_factors(browser, ann):
    mine = browser()
    assert mine.refused("GET", "/me") == (401, "not-signed-in")
    assert mine.sign_in(f" {EMAIL.upper()} ".strip())["state"] == "signed-in"
    me = mine.good("GET", "/me")
    assert (me["email"], me["factors"], me["has_two_factors"], me["methods"]) == (EMAIL, ["password"], False, [])
    mine.good("POST", "/sign-out")
    assert mine.refused("GET", "/me") == (401, "not-signed-in")


def test_app_code_is_the_second_step_and_works_once(browser, ann):
    first = browser()
    first.sign_in()
    secret = with_totp(first)
    assert first.good("GET", "/me")["factors"] == ["password", "totp"]
    other = browser()
    needed = other.sign_in()
    assert (needed["state"], needed["methods"]) == ("factors-needed", ["totp"])
    assert other.refused("GET", "/me") == (401, "not-signed-in")
    # The clock may advance to another step meanwhile.
    at = epoch_seconds()
    step = {"challenge": needed["challenge"], "code": code_of(secret, at=at)}
    assert other.refused("POST", "/sign-in/totp", step | {"code": "000000"}) == (401, "sign-in-refused")
    other.good("POST", "/sign-in/totp", step)
    assert other.good("GET", "/me")["has_two_factors"]
    # The used code, the used challenge and an earlier code are invalid.
    third = browser()
    again = third.sign_in()["challenge"]
    for code in (code_of(secret, at=at), code_of(secret, at=at, steps=-1)):
        assert third.refused("POST", "/sign-in/totp", {"challenge": again, "code": code})[0] == 401
    assert third.refused("POST", "/sign-in/totp", step | {"code": code_of(secret, at=at, steps=1)}) == (
        401,
        "sign-in-refused",
    )
    third.good("POST", "/sign-in/totp", {"challenge": again, "code": code_of(secret, at=at, steps=1)})


def test_recovery_code_works_once(browser, ann):
    mine = browser()
    mine.sign_in()
    with_totp(mine)
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
    assert other.refused("POST", "/sign-in/recovery-code", body) == (401, "sign-in-refused")


def test_passkey_without_a_password_is_two_factors(browser, ann):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    other = browser()
    other.good("POST", "/sign-in/passkey", by_passkey(other, key))
    me = other.good("GET", "/me")
    assert (me["factors"], me["has_two_factors"]) == (["passkey"], True)
    # The password now also requires the passkey.
    third = browser()
    needed = third.sign_in()
    assert needed["methods"] == ["passkey"]
    third.good("POST", "/sign-in/passkey", by_passkey(third, key, needed["challenge"]))
    assert third.good("GET", "/me")["factors"] == ["passkey", "password"]


def test_key_without_user_verification_is_second_factor_only(browser, ann):
    mine, key = browser(), Authenticator(verifies=False)
    mine.sign_in()
    with_passkey(mine, key)
    other = browser()
    assert other.refused("POST", "/sign-in/passkey", by_passkey(other, key)) == (401, "sign-in-refused")
    other.good("POST", "/sign-in/passkey", by_passkey(other, key, other.sign_in()["challenge"]))
    assert other.good("GET", "/me")["factors"] == ["password", "security-key"]


def test_authenticator_response_works_once_at_this_server(browser, ann):
    mine, key = browser(), Authenticator(counts=False)
    mine.sign_in()
    with_passkey(mine, key)
    other = browser()
    body = by_passkey(other, key)
    other.good("POST", "/sign-in/passkey", body)
    assert browser().refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")
    key.origin = "https://admit.example.net"
    assert other.refused("POST", "/sign-in/passkey", by_passkey(other, key)) == (401, "sign-in-refused")
    key.origin = "http://localhost:8460"
    asked = other.good("POST", "/sign-in/passkey/options", {})
    for options, changed in (
        (asked["options"] | {"rpId": "example.net"}, {}),
        (asked["options"] | {"challenge": "AAAA"}, {}),
        (asked["options"], {"userHandle": "AAAA"}),
        (asked["options"], {"signature": "AAAA"}),
        (asked["options"], {"authenticatorData": "!"}),
        (asked["options"], {"clientDataJSON": ""}),
        (asked["options"], {"clientDataJSON": 5}),
    ):
        body = {"challenge": asked["challenge"], "credential": key.get(options, **changed)}
        assert other.refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused"), changed
    for credential in (
        {},
        {"id": 5},
        {"id": "AAAA", "response": None},
        {"id": key.credential_id.hex()},
    ):
        body = {"challenge": asked["challenge"], "credential": credential}
        assert other.refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused"), credential


def test_cloned_authenticator_is_detected(browser, ann):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    other = browser()
    other.good("POST", "/sign-in/passkey", by_passkey(other, key))
    key.count -= 1
    assert other.refused("POST", "/sign-in/passkey", by_passkey(other, key)) == (401, "sign-in-refused")


def test_challenge_of_one_step_is_rejected_by_another(browser, ann):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    secret = with_totp(mine)
    asked = mine.good("POST", "/sign-in/passkey/options", {})["challenge"]
    needed = browser().sign_in()["challenge"]
    for challenge in (asked, needed[:-2] + "AA", "x", mine.cookies["admit-device"]):
        body = {"challenge": challenge, "code": code_of(secret)}
        assert browser().refused("POST", "/sign-in/totp", body) == (401, "sign-in-refused")
    confirming = mine.good("POST", "/me/confirmation/passkey/options")
    body = {"challenge": confirming["challenge"], "credential": key.get(confirming["options"])}
    assert browser().refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")
    mine.good("POST", "/me/confirmation/passkey", body)


def test_link_sets_a_password_once_and_ends_pending_sign_ins(browser, ann, app_engine):
    mine = browser()
    mine.sign_in()
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        older, newer = (links.create_link(session, actor=ACTOR, person=ann).text for _ in range(2))
    new = "another horse battery"
    for token, expected in ((older, 410), ("x", 410), (newer, 204), (newer, 410)):
        answer = browser().ask("POST", "/sign-in/new-password", {"token": token, "password": new})
        assert answer.status_code == expected, answer.text
    assert mine.refused("GET", "/me") == (401, "sign-in-over")
    assert browser().refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD}) == (401, "sign-in-refused")
    assert browser().sign_in(password=new)["state"] == "signed-in"


def test_weak_password_keeps_the_link_valid(browser, ann, app_engine):
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        token = links.create_link(session, actor=ACTOR, person=ann).text
    assert browser().refused("POST", "/sign-in/new-password", {"token": token, "password": "short"})[0] == 422
    browser().good("POST", "/sign-in/new-password", {"token": token, "password": "another horse battery"})


def test_new_password_ends_a_pending_sign_in(browser, ann, app_engine):
    mine = browser()
    mine.sign_in()
    secret = with_totp(mine)
    other = browser()
    challenge = other.sign_in()["challenge"]
    mine.good("PUT", "/me/password", {"password": "another horse battery"})
    body = {"challenge": challenge, "code": code_of(secret)}
    assert other.refused("POST", "/sign-in/totp", body) == (401, "sign-in-refused")


def test_disabled_user_is_signed_out_and_stays_out(browser, ann, app_engine):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    challenge = browser().sign_in()["challenge"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        people.set_disabled(session, actor=ACTOR, person_id=ann.id, disabled=True)
    assert mine.refused("GET", "/me") == (401, "sign-in-over")
    other = browser()
    wrong = other.ask("POST", "/sign-in", {"email": EMAIL, "password": "wrong"})
    right = other.ask("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD})
    assert (right.status_code, right.content) == (wrong.status_code, wrong.content)
    assert other.refused("POST", "/sign-in/passkey", by_passkey(other, key)) == (401, "sign-in-refused")
    assert other.refused("POST", "/sign-in/passkey/options", {"challenge": challenge}) == (401, "sign-in-refused")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        people.set_disabled(session, actor=ACTOR, person_id=ann.id, disabled=False)
    # Pending sign-ins remain ended.
    assert mine.refused("GET", "/me") == (401, "sign-in-over")


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
