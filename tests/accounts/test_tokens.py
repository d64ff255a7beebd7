"""Tokens of programs."""

from datetime import timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from nac.accounts.grants import PermissionMissing, Principal, TenantPlace
from nac.accounts.owners import Owner
from nac.accounts.permissions import Permission
from nac.api_tokens import service as tokens
from nac.api_tokens.text import TokenText
from nac.clock import utc_now
from nac.db import CredentialScope, session_scope
from nac.errors import Conflict, InvalidInput
from tests.accounts.conftest import Field, Within, whole
from tests.factories.tenancy import ACTOR
from tests.postgres import Database

DAY = timedelta(days=1)


def make(within: Within, owner: Owner, permissions=("endpoint.read",), *, days: float = 1) -> tokens.Made:
    with within(owner) as session:
        return tokens.make_token(
            session, **whole(owner), name="monitoring", permissions=permissions, expires_at=utc_now() + days * DAY
        )


def show(app_engine: Engine, text: str, *, later: timedelta = timedelta()) -> Principal:
    parsed = TokenText.parse(text)
    assert parsed is not None
    with session_scope(CredentialScope(parsed.public_id), engine=app_engine) as session:
        return tokens.authenticate(session, text=parsed, address="192.0.2.1", now=utc_now() + later)


def test_token_acts_for_its_owner_with_its_own_permissions(app_engine: Engine, within: Within, field: Field) -> None:
    alpha, bravo = (TenantPlace(owner.tenant_id, field.acme.msp_id) for owner in (field.alpha, field.bravo))
    of_tenant, of_msp = make(within, field.alpha), make(within, field.acme, ["endpoint.read", "tenant.create"])
    program = show(app_engine, of_tenant.text)
    assert program.actor.startswith("token:monitoring (admit_")
    assert of_tenant.text.rpartition("_")[2] not in program.actor
    assert (program.on_tenant(alpha), program.on_tenant(bravo)) == ({Permission.ENDPOINT_READ}, frozenset())
    msp = show(app_engine, of_msp.text)
    assert Permission.ENDPOINT_READ in msp.on_tenant(alpha) & msp.on_tenant(bravo)
    assert Permission.TENANT_CREATE in msp.on_msp(field.acme.msp_id)
    assert not msp.on_msp(field.bolt.msp_id)


def test_wrong_revoked_and_expired_tokens_are_told_apart_in_the_log_alone(
    app_engine: Engine, within: Within, field: Field
) -> None:
    good, revoked = make(within, field.alpha), make(within, field.alpha)
    with within(field.alpha) as session:
        for _ in range(2):
            tokens.revoke_token(session, actor=ACTOR, owner=field.alpha, token_id=revoked.row.id)
    wrong = good.text[:-1] + ("a" if good.text[-1] != "a" else "b")
    seen = {}
    for why, text, later in (
        ("unknown", TokenText.make().reveal(), timedelta()),
        ("wrong-secret", wrong, timedelta()),
        ("revoked", revoked.text, timedelta()),
        ("expired", good.text, DAY),
    ):
        with pytest.raises(tokens.TokenRefused) as caught:
            show(app_engine, text, later=later)
        assert caught.value.why == why
        seen[str(caught.value)] = caught.value.status
    assert list(seen.values()) == [401]
    assert show(app_engine, good.text, later=DAY - timedelta(minutes=1))


def test_last_use_is_written_once_a_minute(app_engine: Engine, within: Within, field: Field) -> None:
    made = make(within, field.alpha)

    def last_used():
        with within(field.alpha) as session:
            row = tokens.require(session, owner=field.alpha, token_id=made.row.id)
            return row.last_used_at, row.last_used_from

    assert last_used() == (None, None)
    show(app_engine, made.text)
    first, address = last_used()
    assert address == "192.0.2.1"
    show(app_engine, made.text, later=timedelta(seconds=30))
    assert last_used()[0] == first
    show(app_engine, made.text, later=timedelta(seconds=90))
    assert last_used()[0] > first


def test_secret_is_stored_nowhere(database: Database, within: Within, field: Field) -> None:
    made = make(within, field.alpha)
    secret = made.text.rpartition("_")[2]
    with psycopg.connect(database.owner_url) as connection:
        for table in ("api_tokens", "audit_log"):
            rows = connection.execute(f"SELECT t::text FROM {table} t").fetchall()
            assert rows
            assert not any(secret in row[0] for row in rows)
    assert secret not in repr(made)


def test_tokens_are_their_owners_alone(within: Within, field: Field) -> None:
    made = {owner: make(within, owner, ["endpoint.read"]) for owner in field.all()}
    for owner in field.all():
        with within(owner) as session:
            assert [row.id for row in tokens.list_tokens(session, owner=owner)] == [made[owner].row.id]
            for other in set(made) - {owner}:
                with pytest.raises(tokens.TokenNotFound):
                    tokens.revoke_token(session, actor=ACTOR, owner=owner, token_id=made[other].row.id)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"permissions": ["tenant.create"]}, InvalidInput),
        ({"permissions": ["tenant.fly"]}, InvalidInput),
        ({"permissions": []}, InvalidInput),
        ({"expires_at": utc_now() - DAY}, InvalidInput),
        ({"expires_at": utc_now() + 400 * DAY}, InvalidInput),
        ({"name": " "}, InvalidInput),
        ({"held": frozenset({Permission.SITE_READ})}, PermissionMissing),
    ],
)
def test_mistakes_make_no_token(within: Within, field: Field, given, error) -> None:
    right = {"name": "x", "permissions": ["endpoint.read"], "expires_at": utc_now() + DAY}
    with within(field.alpha) as session:
        with pytest.raises(error):
            tokens.make_token(session, **whole(field.alpha) | right | given)
        assert not tokens.list_tokens(session, owner=field.alpha)


def test_number_of_tokens_is_bounded(within: Within, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_OF_AN_OWNER", 2)
    first, _ = make(within, field.alpha), make(within, field.alpha)
    with pytest.raises(Conflict):
        make(within, field.alpha)
    with within(field.alpha) as session:
        tokens.revoke_token(session, actor=ACTOR, owner=field.alpha, token_id=first.row.id)
    assert make(within, field.alpha)


@given(st.text() | st.from_regex(r"\Aadmit_[a-z0-9]{15,17}_[a-z0-9]{25,27}\Z"))
def test_text_is_read_as_it_was_made_and_nothing_else_is(text: str) -> None:
    parsed = TokenText.parse(text)
    assert parsed is None or parsed.reveal() == text
    made = TokenText.make()
    assert TokenText.parse(made.reveal()) == made
    assert made.is_of(made.digest())
    assert not TokenText(made.public_id, "a" * 26).is_of(made.digest())
