"""Row-level security of accounts, without the filters of the services."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.accounts import api_tokens, custom_roles
from nac.accounts.members import service as members
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, session_scope
from nac.kit.errors import ScopeViolation
from nac.models import ApiToken, CustomRole, IdempotencyKey, Membership, MembershipTenant, Person, SignIn
from tests.accounts.conftest import PLATFORM, Field, Within, whole

TABLES = (Person, Membership, MembershipTenant, CustomRole, ApiToken, SignIn)


@pytest.fixture
def filled(app_engine: Engine, within: Within, field: Field) -> dict[Owner, members.Member]:
    """Create a member, a token and a role for each owner, and no role for the platform.

    One member of acme has a chosen tenant.
    """
    found = {}
    for number, owner in enumerate(field.all()):
        with within(owner) as session:
            chosen = ["alpha"] if owner == field.acme else None
            found[owner] = members.create_member(
                session, **whole(owner), email=f"p{number}@example.com", role="auditor", tenants=chosen
            )
            ends = utc_now() + timedelta(days=1)
            api_tokens.create_token(session, **whole(owner), name="t", permissions=["site.read"], expires_at=ends)
            if owner != PLATFORM:
                custom_roles.create_role(session, **whole(owner), slug="own", name="Own", permissions=["site.read"])
        person_id = found[owner].person.id
        with session_scope(PersonScope(person_id), engine=app_engine) as session:
            row = {"public_id": f"{number:016d}", "secret_sha256": b"", "factors": [], "expires_at": ends}
            session.add(SignIn(person_id=person_id, **row))
    return found


def seen(session: Session) -> dict[str, int]:
    return {table.__tablename__: len(session.scalars(select(table)).all()) for table in TABLES}


def test_owner_sees_only_its_rows(within: Within, field: Field, filled: dict[Owner, members.Member]) -> None:
    for owner in (field.bolt, field.alpha, field.bravo, field.foreign):
        with within(owner) as session:
            assert seen(session) == {
                "people": 1,
                "memberships": 1,
                "membership_tenants": 0,
                "custom_roles": 1,
                "api_tokens": 1,
                "sign_ins": 0,
            }, owner
    with within(field.acme) as session:
        assert seen(session)["membership_tenants"] == 1
        assert session.scalars(select(Person.email)).all() == [filled[field.acme].person.email]


def test_user_sees_their_account_and_memberships(
    app_engine: Engine, field: Field, filled: dict[Owner, members.Member]
) -> None:
    with session_scope(PersonScope(filled[field.acme].person.id), engine=app_engine) as session:
        own = {
            "people": 1,
            "memberships": 1,
            "membership_tenants": 1,
            "custom_roles": 0,
            "api_tokens": 0,
            "sign_ins": 1,
        }
        assert seen(session) == own
        assert session.execute(update(Membership).values(role="msp-admin")).rowcount == 0  # type: ignore[attr-defined]
    with session_scope(PersonScope(uuid4()), engine=app_engine) as session:
        assert not any(seen(session).values())


def test_credential_sees_only_its_row(app_engine: Engine, within: Within, field: Field, filled) -> None:
    with within(field.alpha) as session:
        (token,) = api_tokens.list_tokens(session, owner=field.alpha)
    with session_scope(CredentialScope(token.public_id), engine=app_engine) as session:
        assert {name: number for name, number in seen(session).items() if number} == {"api_tokens": 1}
    with session_scope(CredentialScope("0" * 15 + "1"), engine=app_engine) as session:
        assert {name: number for name, number in seen(session).items() if number} == {"sign_ins": 1}


def test_session_without_scope_sees_nothing(app_engine: Engine, filled: dict[Owner, members.Member]) -> None:
    with Session(app_engine) as session:
        assert not any(seen(session).values())


def test_writing_a_row_of_another_owner_is_rejected(
    within: Within, field: Field, filled: dict[Owner, members.Member]
) -> None:
    foreign = filled[field.bolt]
    for row in (
        Membership(person_id=filled[field.acme].person.id, created_by="x", role="msp-admin", **field.bolt.columns()),
        # The platform owns these rows.
        Membership(person_id=filled[field.acme].person.id, created_by="x", role="platform-operator"),
        MembershipTenant(membership_id=foreign.membership.id, tenant_id=field.alpha.tenant_id),
        MembershipTenant(membership_id=filled[field.acme].membership.id, tenant_id=field.foreign.tenant_id),
        CustomRole(slug="x", name="x", permissions=[], **field.bolt.columns()),
        Person(email="eve@example.com"),
        IdempotencyKey(asker="x", key="k", request_sha256=b"", **field.bolt.columns()),
    ):
        with pytest.raises(ScopeViolation), within(field.acme) as session:
            session.add(row)
    with within(field.acme) as session:
        changed = session.execute(update(Person).values(password_hash="x"))
        assert changed.rowcount == 0  # type: ignore[attr-defined]
