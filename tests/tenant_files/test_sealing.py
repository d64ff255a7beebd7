import hashlib
import hmac

from nac.onboarding.tenant_files.file_key import FileKey


def test_passphrase_key_has_the_documented_cost(costs_in_use: None) -> None:
    """With another cost, current files could not be opened, or guesses would be cheaper than documented."""
    made = hashlib.scrypt(b"correct horse battery", salt=b"s" * 16, n=65_536, r=8, p=1, maxmem=1 << 27, dklen=64)
    assert FileKey.make("correct horse battery", b"s" * 16).sign(b"x") == hmac.digest(made[32:], b"x", "sha256").hex()
