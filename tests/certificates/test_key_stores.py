"""Keys of authorities in the configured key store."""

from pathlib import Path
from uuid import uuid4

import pytest

from nac.certificates import signing
from nac.certificates.errors import AuthorityKeyAway, KeyStoreRefused, KeyStoreUnavailable
from nac.certificates.signing import SigningContext
from nac.kit.secrets import MasterKeyFile
from nac.kit.settings import Settings, load_settings
from nac.models import CertificateAuthority
from pki.keys import is_same_public_key
from tests.factories.certificates import SIGNING
from tests.pki.softhsm import LABEL, MODULE, PIN, make_softhsm


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    # An earlier test left these settings.
    signing._cached_token.cache_clear()
    monkeypatch.setenv("SOFTHSM2_CONF", str(make_softhsm(tmp_path).configuration))
    MasterKeyFile.create(tmp_path / "keys" / "master.key")
    (tmp_path / "pin").touch(mode=0o640)
    (tmp_path / "pin").write_text(f"{PIN}\nnot this line\n")
    return load_settings(
        {
            "ADMIT_VAR_DIR": str(tmp_path),
            "ADMIT_AUTHORITY_KEY_STORE": "pkcs11",
            "ADMIT_PKCS11_MODULE": str(MODULE),
            "ADMIT_PKCS11_TOKEN": LABEL,
            "ADMIT_PKCS11_PIN_FILE": str(tmp_path / "pin"),
        }
    )


def test_token_key_is_created_and_found_by_its_row(settings):
    keys, authority_id = SigningContext.from_settings(settings), uuid4()
    made = keys.new_authority_key("ecdsa-p256", authority_id=authority_id)
    row = CertificateAuthority(id=authority_id, name="CA", key_sealed=made.sealed)
    found = SigningContext.from_settings(settings).authority_key(row)
    assert made.store == "pkcs11"
    assert is_same_public_key(found.public_key(), made.key.public_key())
    sealed = keys.new_authority_key("ecdsa-p256", authority_id=authority_id, store="sealed")
    assert sealed.store == "sealed"
    row.key_sealed = sealed.sealed
    assert is_same_public_key(keys.authority_key(row).public_key(), sealed.key.public_key())


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        ("0000\n", "PIN of the token 'admit test' is wrong"),
        ("\n", "first line must be the PIN"),
        (None, "Cannot read the PIN file"),
    ],
)
def test_wrong_pin_is_reported(settings, tmp_path, pin, words):
    if pin is None:
        (tmp_path / "pin").unlink()
    else:
        (tmp_path / "pin").write_text(pin)
    with pytest.raises(KeyStoreRefused, match=words) as caught:
        SigningContext.from_settings(settings).new_authority_key("ecdsa-p256", authority_id=uuid4())
    assert "0000" not in str(caught.value)
    (tmp_path / "pin").touch(mode=0o600)
    (tmp_path / "pin").write_text(PIN)
    assert (
        SigningContext.from_settings(settings).new_authority_key("ecdsa-p256", authority_id=uuid4()).store == "pkcs11"
    )


def test_world_readable_pin_file_is_rejected(settings, tmp_path):
    (tmp_path / "pin").chmod(0o644)
    with pytest.raises(KeyStoreRefused, match=r"mode 0644\)\. chmod 600"):
        SigningContext.from_settings(settings)


def test_missing_token_is_unavailable_and_its_key_is_offline(settings, tmp_path):
    for entry in (tmp_path / "tokens").iterdir():
        entry.rename(tmp_path / entry.name)
    with pytest.raises(KeyStoreUnavailable, match="Token 'admit test' does not exist") as caught:
        SigningContext.from_settings(settings).new_authority_key("ecdsa-p256", authority_id=uuid4())
    assert caught.value.status == 503
    with pytest.raises(AuthorityKeyAway, match="does not store the key of CA"):
        SIGNING.authority_key(CertificateAuthority(id=uuid4(), name="CA"))
