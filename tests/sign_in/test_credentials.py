"""Responses of authenticators with arbitrary JSON, and concurrent requests about credentials."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select

from nac.accounts.people import service as people
from nac.accounts.sign_in import passkeys, rules, second_factors
from nac.accounts.sign_in.passkeys import RelyingParty
from nac.accounts.sign_in_errors import PasskeyRefused, SignInRefused
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PersonScope, PlatformScope, session_scope
from nac.kit.errors import AdmitError
from nac.models import Passkey, Person, RecoveryCode
from tests.factories.tenancy import ACTOR
from tests.run_depth import examples
from tests.sign_in.conftest import PASSWORD, Browser

MakeBrowser = Callable[[], Browser]
PARTY = RelyingParty("http://localhost:8460")
_TEXTS = st.text(max_size=40) | st.binary(max_size=60).map(lambda octets: urlsafe_b64encode(octets).decode())
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


def _shaped(*names: str) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, _VALUES))


_RESPONSES = _shaped(
    "userHandle", "clientDataJSON", "authenticatorData", "signature", "attestationObject", "transports"
)
CREDENTIALS = st.fixed_dictionaries(
    {"id": st.just("AAECAwQF") | _VALUES, "response": _RESPONSES | _VALUES},
    optional={"rawId": st.just("AAECAwQF") | _VALUES, "type": st.just("public-key") | _VALUES},
)


@pytest.fixture
def with_key(app_engine: Engine, ann: Person) -> Person:
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        row = {"credential_id": "AAECAwQF", "public_key": b"\xa0", "sign_count": 0, "name": "k", "backed_up": False}
        session.add(Passkey(person_id=ann.id, **row))
    return ann


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(credential=CREDENTIALS, alone=st.booleans())
def test_arbitrary_authenticator_response_is_rejected(
    app_engine: Engine, with_key: Person, credential: dict, alone: bool
) -> None:
    given = {"person": with_key, "party": PARTY, "nonce": b"x" * 32, "credential": credential}
    with session_scope(PersonScope(with_key.id), engine=app_engine) as session:
        with pytest.raises(SignInRefused):
            passkeys.use_passkey(session, **given, alone=alone, now=utc_now())
        with pytest.raises(PasskeyRefused):
            passkeys.create_passkey(session, **given, actor=ACTOR, name="k")


@pytest.mark.parametrize("response", ["x", ["x"], 5, {"userHandle": {"a": 1}}])
def test_malformed_response_is_no_server_error(browser: MakeBrowser, with_key: Person, response: object) -> None:
    mine = browser()
    credential = {"id": "AAECAwQF", "response": response}
    # As the only factor. The password step needs it as well.
    challenge = mine.good("POST", "/sign-in/passkey/options", {})["challenge"]
    body = {"challenge": challenge, "credential": credential}
    assert mine.refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")
    needed = mine.sign_in()["challenge"]
    challenge = mine.good("POST", "/sign-in/passkey/options", {"challenge": needed})["challenge"]
    body = {"challenge": challenge, "credential": credential}
    assert mine.refused("POST", "/sign-in/passkey", body) == (401, "sign-in-refused")


def test_concurrent_recovery_codes_leave_one_set(app_engine: Engine, ann: Person) -> None:
    def make(_: int) -> None:
        with session_scope(PersonScope(ann.id), engine=app_engine) as session:
            second_factors.create_recovery_codes(
                session, actor=ACTOR, person=people.require_person(session, person_id=ann.id)
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        assert (
            session.scalars(select(func.count()).select_from(RecoveryCode)).one() == second_factors.RECOVERY_CODE_COUNT
        )


def test_concurrent_first_rules_are_stored(app_engine: Engine) -> None:
    def put(number: int) -> str:
        try:
            with session_scope(PlatformScope(), engine=app_engine) as session:
                rules.update_rule(session, actor=ACTOR, owner=Owner(), two_factors=number % 2 == 0, by=None)
        except AdmitError as exc:
            return exc.code
        return ""

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(put, range(6))) == {""}


@pytest.mark.parametrize("email", ["\u0130nn@example.com", "ann@example.com\u212a", "\u212aann@example.com"])
def test_addresses_with_lookalike_letters_match_no_user(browser: MakeBrowser, make_person, email: str) -> None:
    make_person("inn@example.com")
    make_person("kann@example.com")
    body = {"email": email, "password": PASSWORD}
    assert browser().refused("POST", "/sign-in", body) == (401, "sign-in-refused")
