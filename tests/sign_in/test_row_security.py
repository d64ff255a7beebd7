"""Row-level security of credentials, tested without the filters of the services."""

from contextlib import ExitStack
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, PlatformScope, Scope, session_scope
from nac.kit.errors import ScopeViolation
from nac.models import (
    AccountMail,
    Passkey,
    PasswordLink,
    Person,
    RecoveryCode,
    SignIn,
    SignInAttempt,
    SignInRule,
    SignOn,
    SignOnLink,
    SpentChallenge,
    Totp,
)
from tests.accounts.conftest import Field, scope_of, whole
from tests.sign_in.conftest import MakePerson

OWN = (Totp, Passkey, RecoveryCode, PasswordLink)
SHARED = (SignInRule, SignOn, SignOnLink)


@pytest.fixture
def filled(owner_engine: Engine, field: Field, make_person: MakePerson) -> dict[str, Person]:
    """Two users with one row of each kind, and rules and providers of each MSP and of one of its tenants."""
    found = {name: make_person(f"{name}@example.com") for name in ("ann", "bob")}
    now = utc_now()
    with Session(owner_engine) as session, session.begin():
        for number, person in enumerate(found.values()):
            secret = {"public_id": f"{number:016d}", "secret_sha256": b"", "expires_at": now + timedelta(days=1)}
            key = {
                "credential_id": f"key-{number}",
                "public_key": b"",
                "sign_count": 0,
                "name": "x",
                "backed_up": False,
            }
            session.add_all(
                (
                    Totp(person_id=person.id, secret_sealed=b""),
                    Passkey(person_id=person.id, **key),
                    RecoveryCode(person_id=person.id, code_sha256=b"x"),
                    PasswordLink(person_id=person.id, created_by="x", **secret),
                )
            )
        session.add_all((SignInAttempt(key=b"x", last_at=now), SpentChallenge(digest=b"x", expires_at=now)))
        session.add(SignInRule(two_factors=False))
        for owner in (field.acme, field.bolt, field.alpha, field.foreign):
            row = SignOn(id=uuid4(), settings={}, secret_sealed=b"", **owner.columns())
            session.add_all((SignInRule(two_factors=False, **owner.columns()), row))
            session.flush()
            session.add(SignOnLink(sign_on_id=row.id, subject="x", person_id=found["ann"].id))
            via = {"via_msp_id": owner.msp_id, "via_tenant_id": owner.tenant_id, "sign_on_id": row.id}
            secret = {"public_id": uuid4().hex[:16], "secret_sha256": b"", "expires_at": now + timedelta(days=1)}
            session.add(SignIn(person_id=found["ann"].id, factors=[], **secret, **via))
    return found


def seen(engine: Engine, scope: Scope, *tables: type) -> dict[str, int]:
    with session_scope(scope, engine=engine) as session:
        return {table.__tablename__: len(session.scalars(select(table)).all()) for table in tables}  # type: ignore[attr-defined]


def test_user_sees_only_their_own_rows(app_engine: Engine, filled: dict[str, Person]) -> None:
    for person in filled.values():
        assert set(seen(app_engine, PersonScope(person.id), *OWN).values()) == {1}
    assert set(seen(app_engine, PersonScope(filled["ann"].id), *SHARED).values()) == {0}
    assert set(seen(app_engine, PlatformScope(), *OWN, SignOn, SignOnLink).values()) == {0}
    assert seen(app_engine, CredentialScope("key-0"), *OWN)["passkeys"] == 1
    assert seen(app_engine, CredentialScope("0" * 16), *OWN)["password_links"] == 1


def test_owner_sees_only_its_own_rows(app_engine: Engine, field: Field, filled: dict[str, Person]) -> None:
    for owner in (field.acme, field.bolt, field.alpha, field.foreign):
        assert set(seen(app_engine, scope_of(owner), *OWN).values()) == {0}
        assert set(seen(app_engine, scope_of(owner), *SHARED, SignIn).values()) == {1}
    assert set(seen(app_engine, scope_of(field.bravo), *SHARED, SignIn).values()) == {0}
    with session_scope(scope_of(field.bravo), engine=app_engine) as session:
        assert session.execute(update(SignIn).values(ended_at=utc_now())).rowcount == 0  # type: ignore[attr-defined]


def test_rows_of_others_cannot_be_written(app_engine: Engine, field: Field, filled: dict[str, Person]) -> None:
    ann, bob = filled["ann"].id, filled["bob"].id
    made = {"public_id": "x" * 16, "secret_sha256": b"", "factors": [], "expires_at": utc_now()}
    with session_scope(scope_of(field.acme), engine=app_engine) as session:
        sign_on_id = session.scalars(select(SignOn.id)).one()
    for scope, statement in (
        (PersonScope(bob), insert(RecoveryCode).values(id=uuid4(), person_id=ann, code_sha256=b"y")),
        (PersonScope(bob), insert(PasswordLink).values(id=uuid4(), person_id=ann, created_by="", **_link())),
        (PersonScope(bob), insert(SignIn).values(id=uuid4(), person_id=ann, **made)),
        (scope_of(field.acme), insert(SignInRule).values(id=uuid4(), **field.bolt.columns())),
        (scope_of(field.bolt), insert(SignOnLink).values(sign_on_id=sign_on_id, subject="y", person_id=bob)),
        # An owner can end sessions of its provider, but cannot create a session.
        (
            scope_of(field.acme),
            insert(SignIn).values(
                id=uuid4(), person_id=ann, sign_on_id=sign_on_id, via_msp_id=field.acme.msp_id, **made
            ),
        ),
    ):
        with pytest.raises(ScopeViolation), session_scope(scope, engine=app_engine) as session:
            session.execute(statement.inline())


def test_counters_are_not_accessible(app_engine: Engine, filled: dict[str, Person]) -> None:
    for table in (SignInAttempt, SpentChallenge, AccountMail):
        with pytest.raises(ScopeViolation):
            seen(app_engine, PlatformScope(), table)


def test_owner_requests_mails_only_for_its_members(app_engine: Engine, field: Field) -> None:
    for scope, owner, kind, may in (
        (scope_of(field.acme), field.acme, "invitation", True),
        (scope_of(field.alpha), field.alpha, "invitation", True),
        (scope_of(field.acme), field.bolt, "invitation", False),
        (scope_of(field.acme), Owner(), "invitation", False),
        (scope_of(field.acme), field.acme, "forgotten", False),
        (PersonScope(uuid4()), Owner(), "forgotten", False),
    ):
        statement = insert(AccountMail).values(kind=kind, email="x@example.com", actor="x", **owner.columns())
        with ExitStack() as stack:
            if not may:
                stack.enter_context(pytest.raises(ScopeViolation))
            stack.enter_context(session_scope(scope, engine=app_engine)).execute(statement.inline())


def test_user_writes_audit_entries_only_in_their_places(app_engine, field, filled, within) -> None:
    with within(field.acme) as session:
        members.create_member(session, **whole(field.acme), email="ann@example.com", role="auditor")
    for person, owner, may in (("ann", field.acme, True), ("ann", field.bolt, False), ("bob", field.acme, False)):
        with ExitStack() as stack:
            if not may:
                stack.enter_context(pytest.raises(ScopeViolation))
            session = stack.enter_context(session_scope(PersonScope(filled[person].id), engine=app_engine))
            audit.append(session, actor="x", action="sign-in.begin", target="x", **owner.columns())


def _link() -> dict[str, object]:
    return {"public_id": "y" * 16, "secret_sha256": b"", "expires_at": utc_now()}
