"""Guesses of a password or code delay only the guesser."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import Engine

from nac.accounts.sign_in import attempts
from nac.accounts.sign_in.attempts import FREE_ATTEMPTS, FREE_PER_ADDRESS, CountedAttempt
from nac.accounts.sign_in_errors import TooManyAttempts
from nac.kit.db import CredentialScope, session_scope
from tests.sign_in.conftest import EMAIL, PASSWORD, REFUSED

ANN, BOB = attempts.make_email_tag("ann@example.com"), attempts.make_email_tag("bob@example.com")
HERE, THERE = "192.0.2.1", "198.51.100.1"


@pytest.fixture
def tried(app_engine: Engine) -> Callable[[CountedAttempt], int]:
    """Function that returns the seconds to wait, 0 if the attempt was checked."""

    def begin(attempt: CountedAttempt) -> int:
        try:
            with session_scope(CredentialScope(""), engine=app_engine) as session:
                attempt.begin(session)
        except TooManyAttempts as exc:
            return exc.retry_after_seconds or -1
        return 0

    return begin


def at_password(tag: bytes = ANN, address: str = HERE, device_id: bytes | None = None) -> CountedAttempt:
    return attempts.password_attempt(email_tag=tag, address=address, device_id=device_id)


def at_code(address: str, device_id: bytes | None = None) -> CountedAttempt:
    return attempts.code_attempt(person_id=UUID(int=1), address=address, device_id=device_id)


@pytest.fixture
def later(sql) -> Callable[[int], list]:
    """Function that lets seconds pass."""
    back = (
        "SET last_at = last_at - :by * interval '1 second', blocked_until = blocked_until - :by * interval '1 second'"
    )
    return lambda seconds: sql(f"UPDATE sign_in_attempts {back}", by=seconds)


def test_delay_grows_and_ends(tried, later):
    assert [tried(at_password()) for _ in range(FREE_ATTEMPTS)] == [0] * FREE_ATTEMPTS
    waits = []
    for _ in range(12):
        waits.append(tried(at_password()))
        later(waits[-1])
        assert tried(at_password()) == 0
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]
    later(3_601)
    assert [tried(at_password()) for _ in range(FREE_ATTEMPTS + 1)] == [0] * FREE_ATTEMPTS + [2]


@pytest.mark.parametrize(
    ("guesses", "delayed", "allowed"),
    [
        # Another user from this address, this user from another address, and this user from a known browser.
        (
            [at_password()] * FREE_ATTEMPTS,
            at_password(),
            [at_password(BOB), at_password(address=THERE), at_password(device_id=b"known")],
        ),
        (
            [at_password(bytes([number])) for number in range(FREE_PER_ADDRESS)],
            at_password(BOB),
            [at_password(BOB, THERE), at_password(BOB, device_id=b"known")],
        ),
        # The network of a household is one address.
        (
            [at_password(address=f"2001:db8::{number}") for number in range(FREE_ATTEMPTS)],
            at_password(address="2001:db8::ffff"),
            [at_password(address="2001:db8:0:1::1")],
        ),
        # Codes are counted by user, from any address.
        (
            [at_code(f"192.0.2.{number}") for number in range(FREE_ATTEMPTS)],
            at_code(THERE),
            [at_code(THERE, b"known")],
        ),
    ],
    ids=["user", "address", "household", "code"],
)
def test_guesses_delay_only_the_guesser(tried, guesses, delayed, allowed):
    assert [tried(each) for each in guesses] == [0] * len(guesses)
    assert tried(delayed) > 0
    assert [tried(each) for each in allowed] == [0] * len(allowed)


def test_success_resets_the_user_and_not_the_address(tried, app_engine, sql):
    for number in range(FREE_PER_ADDRESS - 1):
        tried(at_password(bytes([number])))
    for _ in range(3):
        assert tried(at_password()) == 0
        with session_scope(CredentialScope(""), engine=app_engine) as session:
            at_password().succeed(session)
    counts = sql("SELECT count FROM sign_in_attempts ORDER BY count DESC")
    assert counts[0] == (FREE_PER_ADDRESS - 1,)
    # Each user has one more attempt, from any address.
    assert len(counts) == 2 * FREE_PER_ADDRESS


def test_concurrent_attempts_count_like_sequential_ones(tried):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tried(at_password()), range(40)))
    assert found.count(0) == FREE_ATTEMPTS


def test_old_attempts_are_deleted(tried, later, sql):
    for number in range(25):
        tried(at_password(bytes([number]), f"192.0.2.{number}"))
    later(3_601)
    for number in range(6):
        tried(at_password(bytes([100 + number]), THERE))
    assert sql("SELECT count(*) FROM sign_in_attempts") == [(13,)]


def test_guesses_over_http_lock_out_only_the_guesser(browser, mine):
    guesser = browser()
    mine.good("POST", "/sign-out")
    body = {"email": EMAIL, "password": "wrong"}
    for _ in range(FREE_ATTEMPTS):
        assert guesser.refused("POST", "/sign-in", body) == REFUSED
    answer = guesser.ask("POST", "/sign-in", body | {"password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (429, "too-many-attempts")
    assert int(answer.headers["retry-after"]) <= 2
    # The request comes from this address, from a browser in which the user has signed in before.
    assert mine.sign_in()["state"] == "signed-in"
    # An unknown user gets an equal response.
    nobody = {"email": "nobody@example.com", "password": "wrong"}
    for _ in range(FREE_ATTEMPTS):
        assert guesser.refused("POST", "/sign-in", nobody) == REFUSED
    assert guesser.refused("POST", "/sign-in", nobody) == (429, "too-many-attempts")
