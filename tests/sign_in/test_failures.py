"""Failed sign-ins: notices for the user and the audit log, limited for any attacker."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, text

from nac.accounts.members import service as members
from nac.accounts.sign_in import failure_audit, failures, history, links
from nac.accounts.sign_in.attempts import FREE_ATTEMPTS
from nac.accounts.sign_in.failures import NOBODY_ID
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, session_scope
from nac.models import Person
from tests.accounts.conftest import Field, Within, whole
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, PASSWORD, Browser
from tests.sign_in.test_sign_in import by_passkey, with_passkey

MakeBrowser = Callable[[], Browser]
WRONG = {"email": EMAIL, "password": "wrong"}


@pytest.fixture
def member(ann: Person, within: Within, field: Field) -> Person:
    """A member of acme and, separately, of acme's tenant alpha."""
    for owner in (field.acme, field.alpha):
        with within(owner) as session:
            members.create_member(session, **whole(owner), email=EMAIL, role="help-desk")
    return ann


def fail(engine: Engine, subject_id: UUID, address: str, reason: str = "wrong-password", times: int = 1) -> None:
    for _ in range(times):
        with session_scope(CredentialScope(""), engine=engine) as session:
            audit.set_origin(session, RequestOrigin(address, "asked"))
            failures.record_failure(session, subject_id=subject_id, reason=reason, user_agent="x")


def count(engine: Engine, table: str) -> int:
    with engine.connect() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0


def later(owner_engine: Engine) -> None:
    """Let ten minutes pass, after which failures are reported."""
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE sign_in_failures SET tell_at = now() WHERE tell_at IS NOT NULL"))


def test_failures_are_reported_to_the_user_and_their_owners(browser, member, client, make_token, field, worker_engine):
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
        headers = {"Authorization": f"Bearer {make_token(owner)}"}
        entries = client.get(f"/v1/{place}/audit?target={EMAIL}", headers=headers).json()["items"]
        told = {each["action"]: each for each in entries}
        assert told["sign-in.begin"]["after"]["factors"] == ["password"]
        failed = told["sign-in.fail"]
        assert (failed["after"]["attempts"], failed["request_id"]) == (3, told["sign-in.fail"]["request_id"])
        assert failed["after"]["reasons"] == {"wrong-password": 2, "wrong-confirmation": 1}
        assert failed["request_id"]
    headers = {"Authorization": f"Bearer {make_token(field.bolt)}"}
    assert client.get(f"/v1/msps/bolt/audit?target={EMAIL}", headers=headers).json()["items"] == []


def test_attacker_fills_neither_log_nor_table(member, app_engine, worker_engine, owner_engine):
    before = count(owner_engine, "audit_log")
    for number in range(60):
        for subject in (member.id, NOBODY_ID):
            fail(app_engine, subject, f"192.0.2.{number}")
            fail(app_engine, subject, f"2001:db8::{number}", "wrong-code")
    with owner_engine.connect() as connection:
        rows = connection.execute(
            text("SELECT subject_id, count(*), sum(count) FROM sign_in_failures GROUP BY 1")
        ).all()
    # 20 rows, and one more row for each reason if the attack continues.
    assert {row[0]: (row[1] <= 22, row[2]) for row in rows} == {member.id: (True, 120), NOBODY_ID: (True, 120)}
    assert failure_audit.audit_failures(engine=worker_engine) == 2
    # In the logs of acme and of alpha. The platform has no such member.
    assert count(owner_engine, "audit_log") == before + 3
    fail(app_engine, member.id, "192.0.2.1", times=5)
    assert failure_audit.audit_failures(engine=worker_engine) == 0
    later(owner_engine)
    assert failure_audit.audit_failures(engine=worker_engine) == 1
    with owner_engine.connect() as connection:
        found = connection.execute(
            text("SELECT after, host(address) FROM audit_log WHERE tenant_id IS NOT NULL AND action = 'sign-in.fail'")
        ).all()
    assert [row[0]["attempts"] for row in found] == [120, 5]
    assert found[1] == ({**found[1][0], "in_this_hour": 125}, "192.0.2.1")
    assert len(found[0][0]["from"]) == 5
    later(owner_engine)
    assert failure_audit.audit_failures(engine=worker_engine) == 0


def test_each_kind_of_failure_has_its_reason(browser, ann, owner_engine):
    mine, key = browser(), Authenticator()
    mine.sign_in()
    with_passkey(mine, key)
    other = browser()
    wrong = by_passkey(other, key)
    wrong["credential"]["response"]["signature"] = "AAAA"
    other.refused("POST", "/sign-in/passkey", wrong)
    challenge = other.sign_in()["challenge"]
    other.refused("POST", "/sign-in/totp", {"challenge": challenge, "code": "000000"})
    other.refused("POST", "/sign-in", WRONG | {"email": "nobody@example.com"})
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE people SET status = 'disabled'"))
    other.refused("POST", "/sign-in", WRONG | {"password": PASSWORD})
    with owner_engine.connect() as connection:
        found = set(connection.execute(text("SELECT subject_id, reason FROM sign_in_failures")).all())
    assert {tuple(each) for each in found} == {
        (ann.id, "wrong-passkey"),
        (ann.id, "wrong-code"),
        (ann.id, "disabled"),
        (NOBODY_ID, "wrong-password"),
    }


def test_repeated_sign_ins_fill_no_log_of_others(browser, member, owner_engine, monkeypatch):
    monkeypatch.setattr("nac.accounts.sign_in.sign_ins.MAX_AUDITED_PER_HOUR", 2)
    mine = browser()
    for _ in range(3):
        mine.sign_in()
    with owner_engine.connect() as connection:
        found = connection.execute(
            text(
                "SELECT num_nonnulls(msp_id, tenant_id), count(*) FROM audit_log"
                " WHERE action = 'sign-in.begin' GROUP BY 1 ORDER BY 1"
            )
        ).all()
    assert [tuple(each) for each in found] == [(0, 3), (1, 4)]


def test_user_sees_only_their_own_failures(app_engine, ann):
    fail(app_engine, ann.id, "192.0.2.1")
    for person_id, seen in ((ann.id, 1), (uuid4(), 0)):
        with session_scope(PersonScope(person_id), engine=app_engine) as session:
            assert len(session.execute(text("SELECT FROM sign_in_failures")).all()) == seen


def test_only_old_failures_are_deleted(browser, ann, app_engine, owner_engine, worker_engine):
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
    past = {"at": utc_now() - timedelta(days=91)}
    with owner_engine.begin() as connection:
        all_but_one = "UPDATE sign_ins SET last_seen_at = :at WHERE id <> (SELECT id FROM sign_ins LIMIT 1)"
        connection.execute(text(all_but_one), past)
        connection.execute(text("UPDATE sign_in_failures SET last_at = :at WHERE host(source) LIKE '192.0.2.%'"), past)
        connection.execute(text("UPDATE password_links SET expires_at = :at WHERE used_at IS NOT NULL"), past)
        connection.execute(text("UPDATE sign_in_attempts SET last_at = :at, blocked_until = NULL"), past)
        connection.execute(text("INSERT INTO spent_challenges (digest, expires_at) VALUES ('x', :at)"), past)
        attempts = connection.scalar(text("SELECT count(*) FROM sign_in_attempts"))
    # In several batches.
    assert history.prune(engine=worker_engine, batch=2) == {
        "sign_ins": 4,
        "sign_in_failures": 5,
        "password_links": 2,
        "sign_in_attempts": attempts,
        "spent_challenges": 1,
    }
    assert (count(owner_engine, "sign_ins"), count(owner_engine, "password_links")) == (1, 1)
    assert count(owner_engine, "sign_in_failures") == 1
