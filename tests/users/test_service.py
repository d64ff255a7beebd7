from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.users import service as users
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import AlreadyExists, InvalidInput
from nac.kit.ids import TenantId
from nac.kit.passwords import compute_nt_hash, verify_password
from tests.factories.tenancy import ACTOR, make_platform, make_tenant, seal
from tests.row_snapshots import snapshotted

PASSWORD = "correct horse"


@pytest.fixture
@snapshotted
def tenant_id(app_engine: Engine, cell_engine: Engine) -> TenantId:
    return make_tenant(app_engine, make_platform(app_engine, cell_engine), "alpha").id


@pytest.fixture
def session(app_engine: Engine, tenant_id: TenantId) -> Iterator[Session]:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        yield session


@pytest.fixture
def owner_ids(tenant_id: TenantId) -> dict[str, object]:
    return {"actor": ACTOR, "tenant_id": tenant_id}


def test_password_is_hashed_with_argon2id(session, owner_ids, costs_in_use):
    user = users.create_user(session, **owner_ids, name="ann", password=PASSWORD)
    assert user.password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert verify_password(PASSWORD.encode(), user.password_hash)
    assert not verify_password(PASSWORD.encode() + b"!", user.password_hash)
    assert user.password_sealed is None
    assert PASSWORD not in str([entry.after for entry in audit.list_entries(session)])


def test_chap_password_is_stored_sealed_for_its_user(session, owner_ids):
    user = users.create_user(session, **owner_ids, name="ann", password=PASSWORD, seal_for_chap=seal)
    assert user.password_sealed == seal(PASSWORD.encode(), f"user:{user.id}")


def test_nt_hash_is_stored_sealed_only_on_request(session, owner_ids):
    plain = users.create_user(session, **owner_ids, name="ann", password="password")
    assert plain.nt_hash_sealed is None
    user = users.create_user(session, **owner_ids, name="ben", password="password", seal_for_mschap=seal)
    # The published NT hash of "password".
    assert user.nt_hash_sealed == seal(b"8846f7eaee8fb117ad06bdd830b7586c", f"user-nt-hash:{user.id}")
    assert [entry.after["mschap"] for entry in audit.list_entries(session) if entry.target == "ben"] == [True]


@pytest.mark.parametrize(
    ("password", "digest"),
    # RFC 2759 9.2, and the output of openssl dgst -md4 for characters beyond ASCII in UTF-16.
    [("clientPass", "44ebba8d5312b8d611474411f56989ae"), ("pässwörd ☕", "da9beb067c0e1a9f007f3247fb1830c2")],
)
def test_nt_hash_matches_the_rfc(password, digest):
    assert compute_nt_hash(password) == digest


def test_new_password_keeps_the_nt_hash_setting(session, owner_ids):
    user = users.create_user(session, **owner_ids, name="ann", password=PASSWORD)

    def change(password: str, **more: object) -> bytes | None:
        return users.update_password(
            session, **owner_ids, name="ann", password=password, seal=seal, **more
        ).nt_hash_sealed

    assert change("battery staple") is None
    first = change("battery staple", mschap=True)
    assert first == seal(compute_nt_hash("battery staple").encode(), f"user-nt-hash:{user.id}")
    assert change("another staple") == seal(compute_nt_hash("another staple").encode(), f"user-nt-hash:{user.id}")
    assert change("battery staple", mschap=False) is None


def test_name_is_one_user_in_any_case(session, owner_ids, tenant_id):
    users.create_user(session, **owner_ids, name="Ann.Straße", password=PASSWORD)
    with pytest.raises(AlreadyExists):
        users.create_user(session, **owner_ids, name="ANN.STRASSE", password=PASSWORD)
    assert users.require_by_name(session, tenant_id=tenant_id, name="ann.strasse").name == "ann.strasse"


def test_new_password_keeps_the_chap_setting(session, owner_ids):
    user = users.create_user(session, **owner_ids, name="ann", password=PASSWORD)
    old, other = user.password_hash, "battery staple"

    def change(**more: object) -> bytes | None:
        return users.update_password(
            session, **owner_ids, name="Ann", password=other, seal=seal, **more
        ).password_sealed

    assert change() is None
    assert user.password_hash != old
    assert change(chap=True) == change() == seal(other.encode(), f"user:{user.id}")
    assert change(chap=False) is None
    with pytest.raises(InvalidInput):
        users.update_password(session, **owner_ids, name="ann", password="short", seal=seal)


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "x" * 254, "00:11:22:33:44:55", "0011.2233.4455", "AABBCCDDEEFF"])
def test_name_ambiguous_in_radius_or_mab_is_rejected(session, owner_ids, name):
    with pytest.raises(InvalidInput) as caught:
        users.create_user(session, **owner_ids, name=name, password=PASSWORD)
    assert caught.value.place == "name"


@pytest.mark.parametrize("password", ["", "seven77", "x" * 129, "é" * 65, "nul\0inside"])
def test_password_length_outside_radius_limits_is_rejected(session, owner_ids, password):
    with pytest.raises(InvalidInput) as caught:
        users.create_user(session, **owner_ids, name="ann", password=password)
    assert caught.value.place == "password"
