"""Failed sign-ins: notices for the user and the audit log, limited for any attacker."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, text

from nac.accounts.sign_in import failure_audit, failures, history, links
from nac.accounts.sign_in.attempts import FREE_ATTEMPTS
from nac.accounts.sign_in.failures import NOBODY_ID
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, session_scope
from nac.models import Person
from tests.accounts.conftest import AddMember, Field
from tests.sign_in.authenticator import Authenticator
from tests.sign_in.conftest import EMAIL, PASSWORD

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
    sql("UPDATE sign_in_failures SET tell_at = now() WHERE tell_at IS NOT NULL")
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
    found = sql("SELECT after, host(address) FROM audit_log WHERE tenant_id IS NOT NULL AND action = 'sign-in.fail'")
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
