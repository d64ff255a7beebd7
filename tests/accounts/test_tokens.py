"""API tokens."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from nac.accounts import api_tokens
from nac.accounts.api_tokens import TokenText
from nac.accounts.members import service as members
from nac.accounts.members.service import Member
from nac.accounts.people import service as people
from nac.core.access.grants import MspRef, Owner, PermissionMissing, Principal, TenantRef, TokenMaker
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, session_scope
from nac.kit.errors import Conflict, InvalidInput
from nac.kit.permissions import Permission
from nac.models import AuditEntry
from tests.accounts.conftest import PLATFORM, Field, Within, whole
from tests.factories.tenancy import ACTOR
from tests.postgres import Database

DAY = timedelta(days=1)


def make(within: Within, owner: Owner, permissions=("endpoint.read",), *, days: float = 1) -> api_tokens.CreatedToken:
    with within(owner) as session:
        return api_tokens.create_token(
            session, **whole(owner), name="monitoring", permissions=permissions, expires_at=utc_now() + days * DAY
        )


def show(app_engine: Engine, text: str, *, later: timedelta = timedelta()) -> Principal:
    parsed = TokenText.parse(text)
    assert parsed is not None
    with session_scope(CredentialScope(parsed.public_id), engine=app_engine) as session:
        return api_tokens.authenticate(session, text=parsed, address="192.0.2.1", now=utc_now() + later).principal


def test_token_acts_for_its_owner_with_its_own_permissions(app_engine: Engine, within: Within, field: Field) -> None:
    alpha, bravo = (TenantRef(owner.tenant_id, field.acme.msp_id) for owner in (field.alpha, field.bravo))
    of_tenant, of_msp = make(within, field.alpha), make(within, field.acme, ["endpoint.read", "tenant.create"])
    program = show(app_engine, of_tenant.text)
    assert program.actor.startswith("token:monitoring (admit_")
    assert of_tenant.text.rpartition("_")[2] not in program.actor
    assert (program.on_tenant(alpha), program.on_tenant(bravo)) == ({Permission.ENDPOINT_READ}, frozenset())
    msp = show(app_engine, of_msp.text)
    assert Permission.ENDPOINT_READ in msp.on_tenant(alpha) & msp.on_tenant(bravo)
    assert Permission.TENANT_CREATE in msp.on_msp(MspRef(field.acme.msp_id))
    assert not msp.on_msp(MspRef(field.bolt.msp_id))


def test_rejected_token_reason_appears_only_in_the_log(app_engine: Engine, within: Within, field: Field) -> None:
    good, revoked = make(within, field.alpha), make(within, field.alpha)
    with within(field.alpha) as session:
        for _ in range(2):
            api_tokens.revoke_token(session, **whole(field.alpha), token_id=revoked.row.id)
    wrong = good.text[:-1] + ("a" if good.text[-1] != "a" else "b")
    seen = {}
    for why, text, later in (
        ("unknown", TokenText.make().reveal(), timedelta()),
        ("wrong-secret", wrong, timedelta()),
        ("revoked", revoked.text, timedelta()),
        ("expired", good.text, DAY),
    ):
        with pytest.raises(api_tokens.TokenRefused) as caught:
            show(app_engine, text, later=later)
        assert caught.value.why == why
        seen[str(caught.value)] = caught.value.status
    assert list(seen.values()) == [401]
    assert show(app_engine, good.text, later=DAY - timedelta(minutes=1))


def made_by_ann(app_engine: Engine, within: Within, field: Field) -> tuple[Member, api_tokens.CreatedToken]:
    """A token of the tenant alpha, created by Ann, who administers acme."""
    with within(field.acme) as session:
        ann = members.create_member(session, **whole(field.acme), email="ann@example.com", role="msp-admin")
    with within(field.alpha) as session:
        maker = TokenMaker(ann.person.id, "person:ann@example.com")
        wanted = {"permissions": ["endpoint.read", "token.manage"], "expires_at": utc_now() + DAY}
        return ann, api_tokens.create_token(session, **whole(field.alpha), name="hers", maker=maker, **wanted)


def test_token_is_limited_by_its_creator_permissions(app_engine: Engine, within: Within, field: Field) -> None:
    ann, made = made_by_ann(app_engine, within, field)
    alpha = TenantRef(field.alpha.tenant_id, field.acme.msp_id)
    member = {"membership_id": ann.membership.id}

    def change(**given) -> None:
        with within(field.acme) as session:
            members.update_member(session, **whole(field.acme), **member, **given)

    def held() -> frozenset[Permission] | str:
        try:
            return show(app_engine, made.text).on_tenant(alpha)
        except api_tokens.TokenRefused as exc:
            return exc.why

    both = {Permission.ENDPOINT_READ, Permission.TOKEN_MANAGE}
    assert held() == both
    change(role="help-desk")
    assert held() == {Permission.ENDPOINT_READ}
    change(role="msp-admin", tenants=["bravo"])
    assert held() == "maker-gone"
    change(role="msp-admin", tenants=["alpha"])
    assert held() == both
    for disabled in (True, False):
        with within(PLATFORM) as session:
            people.set_disabled(session, actor=ACTOR, person_id=ann.person.id, disabled=disabled)
        assert held() == ("maker-gone" if disabled else both)
    with within(field.foreign) as session:
        members.create_member(session, **whole(field.foreign), email="ann@example.com", role="tenant-admin")
    with within(field.acme) as session:
        members.delete_member(session, **whole(field.acme), **member)
    assert held() == "maker-gone"


def test_provider_token_is_limited_to_its_owner_grants(app_engine: Engine, within: Within, field: Field) -> None:
    """The creator's own permissions exceed those of the tenant whose identity provider signed the creator in."""
    ann, _ = made_by_ann(app_engine, within, field)
    with within(field.alpha) as session:
        maker = TokenMaker(ann.person.id, "person:ann@example.com", via=field.alpha)
        wanted = {"permissions": ["endpoint.read"], "expires_at": utc_now() + DAY}
        made = api_tokens.create_token(session, **whole(field.alpha), name="hers", maker=maker, **wanted)
    with pytest.raises(api_tokens.TokenRefused):
        show(app_engine, made.text)
    with within(field.alpha) as session:
        members.create_member(session, **whole(field.alpha), email="ann@example.com", role="auditor")
    assert show(app_engine, made.text).maker == maker


def test_child_token_ends_with_its_parent(app_engine: Engine, within: Within, field: Field) -> None:
    ann, first = made_by_ann(app_engine, within, field)
    program = show(app_engine, first.text)
    line = [first]
    for number in range(3):
        with within(field.alpha) as session:
            made = api_tokens.create_token(
                session,
                **whole(field.alpha),
                name=f"child {number}",
                permissions=["endpoint.read"],
                expires_at=utc_now() + 9 * DAY,
                maker=program.maker,
                parent_id=line[-1].row.id,
            )
        assert (made.row.maker_id, made.row.expires_at) == (ann.person.id, first.row.expires_at)
        line.append(made)
    with within(field.alpha) as session:
        api_tokens.revoke_token(session, **whole(field.alpha), token_id=line[1].row.id)
    assert show(app_engine, first.text)
    for made in line[1:]:
        with pytest.raises(api_tokens.TokenRefused) as caught:
            show(app_engine, made.text)
        assert caught.value.why == "revoked"
    wanted = {"permissions": ["endpoint.read"], "expires_at": utc_now() + DAY}
    with within(field.alpha) as session, pytest.raises(api_tokens.TokenRefused):
        api_tokens.create_token(session, **whole(field.alpha), name="late", parent_id=line[-1].row.id, **wanted)


def test_token_is_revoked_only_once(app_engine: Engine, within: Within, field: Field) -> None:
    made = make(within, field.alpha)

    def revoke(_: int) -> None:
        with within(field.alpha) as session:
            api_tokens.revoke_token(session, **whole(field.alpha), token_id=made.row.id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(revoke, range(4)))
    with within(field.alpha) as session:
        told = session.scalars(select(AuditEntry.action).where(AuditEntry.action == "token.revoke")).all()
    assert len(told) == 1


def test_last_use_is_written_once_a_minute(app_engine: Engine, within: Within, field: Field) -> None:
    made = make(within, field.alpha)

    def last_used():
        with within(field.alpha) as session:
            row = api_tokens.require_token(session, owner=field.alpha, token_id=made.row.id)
            return row.last_used_at, row.last_used_from

    assert last_used() == (None, None)
    show(app_engine, made.text)
    first, address = last_used()
    assert address == "192.0.2.1"
    show(app_engine, made.text, later=timedelta(seconds=30))
    assert last_used()[0] == first
    show(app_engine, made.text, later=timedelta(seconds=90))
    assert last_used()[0] > first


def test_secret_is_never_stored(database: Database, within: Within, field: Field) -> None:
    made = make(within, field.alpha)
    secret = made.text.rpartition("_")[2]
    with psycopg.connect(database.owner_url) as connection:
        for table in ("api_tokens", "audit_log"):
            rows = connection.execute(f"SELECT t::text FROM {table} t").fetchall()
            assert rows
            assert not any(secret in row[0] for row in rows)
    assert secret not in repr(made)


def test_tokens_are_visible_only_to_their_owner(within: Within, field: Field) -> None:
    made = {owner: make(within, owner, ["endpoint.read"]) for owner in field.all()}
    for owner in field.all():
        with within(owner) as session:
            assert [row.id for row in api_tokens.list_tokens(session, owner=owner)] == [made[owner].row.id]
            for other in set(made) - {owner}:
                with pytest.raises(api_tokens.TokenNotFound):
                    api_tokens.revoke_token(session, **whole(owner), token_id=made[other].row.id)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"permissions": ["tenant.create"]}, InvalidInput),
        ({"permissions": ["tenant.fly"]}, InvalidInput),
        ({"permissions": []}, InvalidInput),
        ({"name": " "}, InvalidInput),
        ({"held": frozenset({Permission.SITE_READ})}, PermissionMissing),
    ],
)
def test_invalid_fields_create_no_token(within: Within, field: Field, given, error) -> None:
    right = {"name": "x", "permissions": ["endpoint.read"], "expires_at": utc_now() + DAY}
    with within(field.alpha) as session:
        with pytest.raises(error):
            api_tokens.create_token(session, **whole(field.alpha) | right | given)
        assert not api_tokens.list_tokens(session, owner=field.alpha)


@pytest.mark.parametrize(("days", "told"), [(-1, "is in the past"), (400, "is more than 366 days in the future")])
def test_invalid_expiry_is_rejected_with_a_reason(within: Within, field: Field, days: int, told: str) -> None:
    given = {"name": "x", "permissions": ["endpoint.read"], "expires_at": utc_now() + days * DAY}
    with within(field.alpha) as session, pytest.raises(InvalidInput, match=told) as refused:
        api_tokens.create_token(session, **whole(field.alpha), **given)
    assert refused.value.place == "expires_at"


def test_number_of_tokens_is_limited(within: Within, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_tokens, "MAX_TOKENS_PER_OWNER", 2)
    first, _ = make(within, field.alpha), make(within, field.alpha)
    with pytest.raises(Conflict):
        make(within, field.alpha)
    with within(field.alpha) as session:
        api_tokens.revoke_token(session, **whole(field.alpha), token_id=first.row.id)
    assert make(within, field.alpha)


@given(st.text() | st.from_regex(r"\Aadmit_[a-z0-9]{15,17}_[a-z0-9]{25,27}\Z"))
def test_only_the_exact_token_text_is_parsed(text: str) -> None:
    parsed = TokenText.parse(text)
    assert parsed is None or parsed.reveal() == text
    made = TokenText.make()
    assert TokenText.parse(made.reveal()) == made
    assert made.is_of(made.digest())
    assert not TokenText(made.public_id, "a" * 26).is_of(made.digest())
