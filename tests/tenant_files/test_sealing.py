import hashlib
import hmac

from nac.tenant_files.file_key import FileKey


def test_key_of_a_passphrase_costs_what_the_format_says(costs_in_use: None) -> None:
    """Else no file of today opens tomorrow, and a guess is cheaper than was promised."""
    made = hashlib.scrypt(b"correct horse battery", salt=b"s" * 16, n=65_536, r=8, p=1, maxmem=1 << 27, dklen=64)
    assert FileKey.make("correct horse battery", b"s" * 16).sign(b"x") == hmac.digest(made[32:], b"x", "sha256").hex()
