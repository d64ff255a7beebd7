"""Passkeys, and responses of authenticators, that belong to another user."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import Browser, MakePerson
from tests.sign_in.test_sign_in import by_passkey, with_passkey

MakeBrowser = Callable[[], Browser]
BOB = "bob@example.com"


@pytest.fixture
def bob(browser: MakeBrowser, make_person: MakePerson) -> Browser:
    make_person(BOB)
    mine = browser()
    mine.sign_in(BOB)
    return mine


def registering(mine: Browser, key: Authenticator) -> dict[str, object]:
    asked = mine.good("POST", "/me/passkeys/options")
    return {"challenge": asked["challenge"], "credential": key.create(asked["options"]), "name": "Key"}


def test_credential_id_of_another_user_cannot_be_taken(browser, ann, bob):
    """The attacker's authenticator uses the credential id of another user."""
    mine, key, thief = browser(), Authenticator(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    thief.credential_id = key.credential_id
    refused = bob.ask("POST", "/me/passkeys", registering(bob, thief))
    told = refused.json()
    assert (refused.status_code, told["code"], told["place"]) == (409, "already-exists", "credential")
    assert (told["remedy"], "uq_" in refused.text) == ("Create a new passkey.", False)
    assert bob.good("GET", "/me/passkeys")["items"] == []
    # The attacker's passkey does not sign in as that user, and the user's own passkey still works.
    thief.handle = key.handle
    assert browser().refused("POST", "/sign-in/passkey", by_passkey(browser(), thief)) == (401, "sign-in-refused")
    other = browser()
    other.good("POST", "/sign-in/passkey", by_passkey(other, key))
    assert other.good("GET", "/me")["email"] == ann.email


def test_passkey_is_no_second_factor_of_another_user(browser, ann, bob):
    mine, anns, bobs = browser(), Authenticator(), Authenticator()
    mine.sign_in()
    with_passkey(mine, anns)
    with_passkey(bob, bobs)
    for email, key in ((BOB, anns), (ann.email, bobs)):
        thief = browser()
        challenge = thief.sign_in(email)["challenge"]
        assert thief.refused("POST", "/sign-in/passkey", by_passkey(thief, key, challenge)) == (401, "sign-in-refused")
    # A response of another user to a user's challenge, and a challenge of a sign-in to the caller's own account.
    asked = browser().good("POST", "/sign-in/passkey/options", {"challenge": browser().sign_in(BOB)["challenge"]})
    body = {"challenge": asked["challenge"], "credential": anns.get(asked["options"])}
    assert mine.refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")
    asked = bob.good("POST", "/me/confirmation/passkey/options")
    body = {"challenge": asked["challenge"], "credential": anns.get(asked["options"])}
    assert mine.refused("POST", "/me/confirmation/passkey", body) == (401, "sign-in-refused")
    assert browser().refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")


def test_registration_challenge_is_bound_to_its_user(browser, ann, bob):
    mine = browser()
    mine.sign_in()
    body = registering(bob, Authenticator())
    assert mine.refused("POST", "/me/passkeys", body) == (401, "sign-in-refused")
    assert mine.good("GET", "/me/passkeys")["items"] == []


@pytest.mark.parametrize("is_same_offer", [True, False])
def test_concurrent_passkey_registration_stores_one(browser, ann, is_same_offer):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    first = registering(mine, key)
    bodies = [first, first if is_same_offer else registering(mine, key)]
    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(lambda body: mine.ask("POST", "/me/passkeys", body).status_code, bodies))
    # 403: the second registration came after the first. The first passkey is a second factor, unused in this sign-in.
    assert (found[0], found[1] in (401, 403, 409)) == (201, True), found
    assert len(mine.good("GET", "/me/passkeys")["items"]) == 1
