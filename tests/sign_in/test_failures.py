"""Failed sign-ins: guesses delay only the guesser, and notices for the user and the audit log are limited."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, text

from nac.accounts.sign_in import attempts, failure_audit, failures, history, links
from nac.accounts.sign_in.attempts import FREE_ATTEMPTS, FREE_PER_ADDRESS, CountedAttempt
from nac.accounts.sign_in.failures import NOBODY_ID
from nac.accounts.sign_in_errors import TooManyAttempts
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, session_scope
from nac.models import Person
from tests.accounts.conftest import AddMember, Field
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, PASSWORD, REFUSED

WRONG = {"email": EMAIL, "password": "wrong"}


@pytest.fixture
def member(ann: Person, add_member: AddMember, field: Field) -> Person:
    """A member of acme and, separately, of acme's tenant alpha."""
    for owner in (field.acme, field.alpha):
        add_member(owner, EMAIL, "help-desk")
    return ann


def fail(engine: Engine, subject_id: UUID, address: str, reason: str = "wrong-password", times: int = 1) -> None:
    for _ in range(times):
        with session_scope(CredentialScope(""), engine=engine) as session:
            audit.set_origin(session, RequestOrigin(address, "asked"))
            failures.record_failure(session, subject_id=subject_id, reason=reason, user_agent="x")


def count(sql, table: str) -> int:
    return sql(f"SELECT count(*) FROM {table}")[0][0]


def audit_later(sql, worker_engine: Engine) -> int:
    """Report failures, as the worker does after ten minutes."""
    sql("UPDATE sign_in_failures SET audit_due_at = now() WHERE audit_due_at IS NOT NULL")
    return failure_audit.audit_failures(engine=worker_engine)


def test_failures_are_reported_to_the_user_and_their_owners(browser, member, client, headers_of, field, worker_engine):
    mine = browser()
    for _ in range(2):
        refused = mine.ask("POST", "/sign-in", WRONG)
    assert refused.status_code == 401
    mine.sign_in()
    assert mine.ask("POST", "/me/confirmation", {"password": "wrong"}).status_code == 401
    listed = mine.good("GET", "/me/sign-ins")["items"]
    assert [(each["outcome"], each["reason"], each["attempts"]) for each in listed] == [
        ("failed", "wrong-confirmation", 1),
        ("signed-in", None, 1),
        ("failed", "wrong-password", 2),
    ]
    assert listed[1]["factors"] == ["password"]
    # Across pages, each failure appears once.
    first = mine.good("GET", "/me/sign-ins?limit=2")
    second = mine.good("GET", f"/me/sign-ins?limit=2&after={first['next']}")
    assert (first["items"] + second["items"], second["next"]) == (listed, None)
    assert mine.refused("GET", "/me/sign-ins?after=bm9uc2Vuc2U") == (422, "invalid-input")
    assert failure_audit.audit_failures(engine=worker_engine) == 1
    for owner, place in ((field.acme, "msps/acme"), (field.alpha, "tenants/alpha")):
        entries = client.get(f"/v1/{place}/audit?target={EMAIL}", headers=headers_of(owner)).json()["items"]
        told = {each["action"]: each for each in entries}
        assert told["sign-in.begin"]["after"]["factors"] == ["password"]
        failed = told["sign-in.fail"]
        assert failed["after"]["attempts"] == 3
        assert failed["after"]["reasons"] == {"wrong-password": 2, "wrong-confirmation": 1}
        assert failed["request_id"]
    assert client.get(f"/v1/msps/bolt/audit?target={EMAIL}", headers=headers_of(field.bolt)).json()["items"] == []


def test_attacker_fills_neither_log_nor_table(member, app_engine, worker_engine, sql):
    before = count(sql, "audit_log")
    for number in range(60):
        for subject in (member.id, NOBODY_ID):
            fail(app_engine, subject, f"192.0.2.{number}")
            fail(app_engine, subject, f"2001:db8::{number}", "wrong-code")
    rows = sql("SELECT subject_id, count(*), sum(count) FROM sign_in_failures GROUP BY 1")
    # 20 rows, and one more row for each reason if the attack continues.
    assert {row[0]: (row[1] <= 22, row[2]) for row in rows} == {member.id: (True, 120), NOBODY_ID: (True, 120)}
    assert failure_audit.audit_failures(engine=worker_engine) == 2
    # In the logs of acme and of alpha. The platform has no such member.
    assert count(sql, "audit_log") == before + 3
    fail(app_engine, member.id, "192.0.2.1", times=5)
    assert failure_audit.audit_failures(engine=worker_engine) == 0
    assert audit_later(sql, worker_engine) == 1
    found = sql(
        "SELECT after, host(address) FROM audit_log WHERE tenant_id IS NOT NULL AND action = 'sign-in.fail' ORDER BY id"
    )
    assert [row[0]["attempts"] for row in found] == [120, 5]
    assert found[1] == ({**found[1][0], "in_this_hour": 125}, "192.0.2.1")
    assert len(found[0][0]["from"]) == 5
    assert audit_later(sql, worker_engine) == 0


def test_each_kind_of_failure_has_its_reason(browser, ann, mine, sql):
    key, other = Authenticator(), browser()
    mine.add_passkey(key)
    wrong = other.use_passkey(key)
    wrong["credential"]["response"]["signature"] = "AAAA"
    other.refused("POST", "/sign-in/passkey", wrong)
    challenge = other.sign_in()["challenge"]
    other.refused("POST", "/sign-in/totp", {"challenge": challenge, "code": "000000"})
    other.refused("POST", "/sign-in", WRONG | {"email": "nobody@example.com"})
    sql("UPDATE people SET status = 'disabled'")
    other.refused("POST", "/sign-in", WRONG | {"password": PASSWORD})
    assert {tuple(each) for each in sql("SELECT subject_id, reason FROM sign_in_failures")} == {
        (ann.id, "wrong-passkey"),
        (ann.id, "wrong-code"),
        (ann.id, "disabled"),
        (NOBODY_ID, "wrong-password"),
    }


def test_repeated_sign_ins_fill_no_log_of_others(browser, member, sql, monkeypatch):
    monkeypatch.setattr("nac.accounts.sign_in.sign_ins.MAX_AUDITED_PER_HOUR", 2)
    mine = browser()
    for _ in range(3):
        mine.sign_in()
    found = sql(
        "SELECT num_nonnulls(msp_id, tenant_id), count(*) FROM audit_log WHERE action = 'sign-in.begin' GROUP BY 1"
    )
    assert sorted(found) == [(0, 3), (1, 4)]


def test_user_sees_only_their_own_failures(app_engine, ann):
    fail(app_engine, ann.id, "192.0.2.1")
    for person_id, seen in ((ann.id, 1), (uuid4(), 0)):
        with session_scope(PersonScope(person_id), engine=app_engine) as session:
            assert len(session.execute(text("SELECT FROM sign_in_failures")).all()) == seen


def test_only_old_failures_are_deleted(browser, ann, app_engine, sql, worker_engine):
    mine = browser()
    for number in range(5):
        browser().sign_in()
        fail(app_engine, ann.id, f"192.0.2.{number}")
    for _ in range(FREE_ATTEMPTS):
        mine.ask("POST", "/sign-in", WRONG)
    with session_scope(PersonScope(ann.id), engine=app_engine) as session:
        for _ in range(3):
            links.create_link(session, actor="x", person=ann)
    assert sum(history.prune(engine=worker_engine).values()) == 0
    for change in (
        "UPDATE sign_ins SET last_seen_at = :at WHERE id <> (SELECT id FROM sign_ins LIMIT 1)",
        "UPDATE sign_in_failures SET last_at = :at WHERE host(source) LIKE '192.0.2.%'",
        "UPDATE password_links SET expires_at = :at WHERE used_at IS NOT NULL",
        "UPDATE sign_in_attempts SET last_at = :at, blocked_until = NULL",
        "INSERT INTO spent_challenges (digest, expires_at) VALUES ('x', :at)",
    ):
        sql(change, at=utc_now() - timedelta(days=91))
    attempts = count(sql, "sign_in_attempts")
    # In several batches.
    assert history.prune(engine=worker_engine, batch=2) == {
        "sign_ins": 4,
        "sign_in_failures": 5,
        "password_links": 2,
        "sign_in_attempts": attempts,
        "spent_challenges": 1,
    }
    assert [count(sql, table) for table in ("sign_ins", "password_links", "sign_in_failures")] == [1, 1, 1]


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
    """Function that makes all attempts older."""
    back = ", ".join(f"{column} = {column} - :by * interval '1 second'" for column in ("last_at", "blocked_until"))
    return lambda seconds: sql(f"UPDATE sign_in_attempts SET {back}", by=seconds)


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
