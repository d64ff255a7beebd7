import pytest

from nac.core.audit import service as audit
from nac.inventory.users import service as users
from nac.kit import passwords
from nac.kit.errors import AlreadyExists, InvalidInput
from nac.kit.passwords import compute_nt_hash, hash_password, require_stored_hash, verify_password
from tests.factories.tenancy import seal
from tests.factories.tenant_fixtures import session, tenant, tenant_id, who
from tests.radius.pbkdf2_hashes import earlier_hash

__all__ = ["session", "tenant", "tenant_id", "who"]
PASSWORD = "correct horse"


def test_password_is_hashed_with_argon2id(session, who, costs_in_use):
    user = users.create_user(session, **who, name="ann", password=PASSWORD)
    assert user.password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert verify_password(PASSWORD.encode(), user.password_hash)
    assert not verify_password(PASSWORD.encode() + b"!", user.password_hash)
    assert user.password_sealed is None
    assert PASSWORD not in str([entry.after for entry in audit.list_entries(session)])


def test_password_and_nt_hash_are_sealed_only_on_request(session, who):
    plain = users.create_user(session, **who, name="ann", password="password")
    assert (plain.password_sealed, plain.nt_hash_sealed) == (None, None)
    user = users.create_user(session, **who, name="ben", password="password", seal_for_chap=seal, seal_for_mschap=seal)
    assert user.password_sealed == seal(b"password", f"user:{user.id}")
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


def test_name_is_one_user_in_any_case(session, who, tenant_id):
    users.create_user(session, **who, name="Ann.Straße", password=PASSWORD)
    with pytest.raises(AlreadyExists):
        users.create_user(session, **who, name="ANN.STRASSE", password=PASSWORD)
    assert users.require_by_name(session, tenant_id=tenant_id, name="ann.strasse").name == "ann.strasse"


def test_new_password_keeps_the_chap_and_nt_hash_settings(session, who):
    user = users.create_user(session, **who, name="ann", password=PASSWORD)

    def change(password: str = "battery staple", **more: object) -> tuple[bytes | None, bytes | None]:
        changed = users.update_password(session, **who, name="Ann", password=password, seal=seal, **more)
        return changed.password_sealed, changed.nt_hash_sealed

    def sealed(password: str) -> tuple[bytes, bytes]:
        nt_hash = compute_nt_hash(password).encode()
        return seal(password.encode(), f"user:{user.id}"), seal(nt_hash, f"user-nt-hash:{user.id}")

    old = user.password_hash
    assert change() == (None, None)
    assert user.password_hash != old
    assert change(chap=True) == (sealed("battery staple")[0], None)
    assert change(mschap=True) == sealed("battery staple")
    assert change("another staple") == sealed("another staple")
    assert change(mschap=False) == (sealed("battery staple")[0], None)
    assert change(chap=False) == (None, None)
    with pytest.raises(InvalidInput):
        change("short")


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "x" * 254, "00:11:22:33:44:55", "0011.2233.4455", "AABBCCDDEEFF"])
def test_name_ambiguous_in_radius_or_mab_is_rejected(session, who, name):
    with pytest.raises(InvalidInput) as caught:
        users.create_user(session, **who, name=name, password=PASSWORD)
    assert caught.value.place == "name"


@pytest.mark.parametrize("password", ["", "seven77", "x" * 129, "é" * 65, "nul\0inside"])
def test_password_length_outside_radius_limits_is_rejected(session, who, password):
    with pytest.raises(InvalidInput) as caught:
        users.create_user(session, **who, name="ann", password=password)
    assert caught.value.place == "password"


# Imported password hashes never cost more to verify than Admit's own hashes.
_REST = "$p08hrPR30FzXa4sh8XfU1g$iexKppQir0TJJ3388cOWT9R6eOTWL97s8w2cApGmSc8"
DEAR = [
    f"$argon2id$v=19$m={costs}{_REST}"
    for costs in ("65536,t=150,p=1", "3145728,t=1,p=1", "19456,t=3,p=1", "19456,t=2,p=8", "19457,t=2,p=1")
]
NONE = [
    *("password", "$argon2i$v=19$m=8,t=1,p=1" + _REST, "$argon2id$v=19$m=8,t=1,p=1$x$y", "$6$salt$hash", "\xff"),
    "HMACSHA2+512://///w==:" + earlier_hash("x").split(":", 2)[2],
]


def test_current_and_earlier_hashes_are_accepted():
    made = hash_password("some password")
    assert verify_password(b"some password", made)
    for taken in (made, earlier_hash("some password"), ""):
        assert require_stored_hash(taken.encode()) == taken


@pytest.mark.parametrize("dear", DEAR)
def test_expensive_hash_is_rejected_and_never_computed(dear, monkeypatch):
    monkeypatch.setattr(passwords, "Argon2id", None)
    assert not verify_password(b"some password", dear)
    with pytest.raises(InvalidInput):
        require_stored_hash(dear.encode())


@pytest.mark.parametrize("none", NONE)
def test_other_formats_are_rejected(none):
    with pytest.raises(InvalidInput):
        require_stored_hash(none.encode())
