"""Imported password hashes never cost more to verify than Admit's own hashes."""

import pytest

from nac.kit import passwords
from nac.kit.errors import InvalidInput
from nac.kit.passwords import hash_password, require_stored_hash, verify_password
from tests.radius.pbkdf2_hashes import earlier_hash

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
