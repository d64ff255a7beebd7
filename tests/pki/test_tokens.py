"""Keys in a SoftHSM token sign certificates, cannot be exported, and remain usable after an outage of the token."""

import multiprocessing
from pathlib import Path

import pkcs11
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from nac.kit.clock import utc_now
from pki.bundles import certificates_pem
from pki.errors import TokenRefused, TokenUnavailable
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key, is_same_public_key
from pki.names import subject_name
from pki.pkcs11_tokens import Pkcs11Token
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.pki.openssl import verify
from tests.pki.softhsm import MODULE, SoftHsm, make_softhsm


@pytest.fixture
def hsm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SoftHsm:
    made = make_softhsm(tmp_path)
    monkeypatch.setenv("SOFTHSM2_CONF", str(made.configuration))
    return made


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "rsa-2048"])
def test_token_authority_signs_a_chain_openssl_verifies(hsm, tmp_path, kind):
    token, now = hsm.token(), utc_now()
    root_key, issuing_key = (token.generate(kind, key_id=name.encode(), label=name) for name in ("root", "issuing"))

    def signed(profile, key, subject, issuer, key_id):
        # The key is looked up again, as in another process.
        by = Issuer(issuer, hsm.token().key(key_id))
        subject, public_key = subject_name(subject, organisation="A"), key.public_key()
        options = {"issuer": by, "now": now, "serial": random_serial()}
        return issue(PROFILES[profile], public_key=public_key, subject=subject, **options)

    subject = subject_name("Root", organisation="A")
    root = issue_root(PROFILES["root"], key=root_key, subject=subject, now=now, serial=random_serial())
    issuing = signed("issuing", issuing_key, "Issuing", root, b"root")
    certificate = signed("eap-client-device", generate_key(), "laptop", issuing, b"issuing")
    files = [tmp_path / f"{name}.pem" for name in ("root", "issuing", "certificate")]
    for file, member in zip(files, (root, issuing, certificate), strict=True):
        file.write_bytes(certificates_pem([member]))
    good = verify("sslclient", *files)
    assert good.returncode == 0, good.stderr


def test_key_cannot_be_exported(hsm):
    token = hsm.token()
    for kind in ("ecdsa-p256", "rsa-2048"):
        key = token.generate(kind, key_id=kind.encode(), label=kind)
        with pytest.raises(TokenRefused, match="cannot be exported"):
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with pytest.raises(TokenRefused, match="cannot be exported"):
            key.private_numbers()
        assert "1234" not in repr(token)
    # The token reports that the key is not extractable.
    session = token._open(pkcs11)
    for private in session.get_objects({pkcs11.Attribute.CLASS: pkcs11.ObjectClass.PRIVATE_KEY}):
        assert private[pkcs11.Attribute.SENSITIVE]
        assert not private[pkcs11.Attribute.EXTRACTABLE]
    with pytest.raises(UnsupportedAlgorithm):
        token.key(b"rsa-2048").sign(b"x", padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())


# The library reports that a search ended because its session ended.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_token_signs_again_after_it_was_removed(hsm, tmp_path):
    key = hsm.token().generate("ecdsa-p256", key_id=b"k", label="k")
    away = tmp_path / "away"
    for entry in list(hsm.store.iterdir()):
        away.mkdir(exist_ok=True)
        entry.rename(away / entry.name)
    # Any other user of the module in this process closes its sessions.
    pkcs11.lib(str(MODULE)).reinitialize()
    with pytest.raises(TokenUnavailable, match="admit test"):
        key.sign(b"data", ec.ECDSA(hashes.SHA256()))
    for entry in list(away.iterdir()):
        entry.rename(hsm.store / entry.name)
    key.public_key().verify(key.sign(b"data", ec.ECDSA(hashes.SHA256())), b"data", ec.ECDSA(hashes.SHA256()))


def test_session_without_its_key_is_discarded(hsm, tmp_path):
    token, away = hsm.token(), tmp_path / "away"
    public = token.generate("ecdsa-p256", key_id=b"k", label="k").public_key()
    hsm.store.rename(away)
    hsm.store.mkdir()
    with pytest.raises(TokenUnavailable, match="Token 'admit test' does not exist"):
        token.key(b"k")
    hsm.store.rmdir()
    away.rename(hsm.store)
    assert is_same_public_key(token.key(b"k").public_key(), public)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_failing_module_is_unavailable_until_it_recovers(hsm):
    token, configuration = hsm.token(), hsm.configuration.read_text()
    public = token.generate("ecdsa-p256", key_id=b"k", label="k").public_key()
    hsm.configuration.write_text("directories.tokendir = /nonexistent\n")
    with pytest.raises(TokenUnavailable, match="The token 'admit test' fails"):
        hsm.token().key(b"k")
    hsm.configuration.write_text(configuration)
    assert is_same_public_key(token.key(b"k").public_key(), public)


def _sign(token: Pkcs11Token, answers: "multiprocessing.Queue[bytes]") -> None:
    answers.put(token.key(b"k").sign(b"data", ec.ECDSA(hashes.SHA256())))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_opens_its_own_session(hsm):
    token = hsm.token()
    public = token.generate("ecdsa-p256", key_id=b"k", label="k").public_key()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_sign, args=(token, answers))
    child.start()
    public.verify(answers.get(timeout=30), b"data", ec.ECDSA(hashes.SHA256()))
    child.join(30)
    assert child.exitcode == 0
    public.verify(token.key(b"k").sign(b"data", ec.ECDSA(hashes.SHA256())), b"data", ec.ECDSA(hashes.SHA256()))


def test_wrong_pin_is_not_retried(hsm, tmp_path):
    token = hsm.token(pin="0000")
    with pytest.raises(TokenRefused, match="PIN of the token 'admit test' is wrong"):
        token.key(b"k")
    # Another attempt would fail because the token is missing.
    for entry in hsm.store.iterdir():
        entry.rename(tmp_path / entry.name)
    with pytest.raises(TokenRefused, match="PIN of the token 'admit test' is wrong"):
        token.key(b"k")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"label": "other"}, TokenUnavailable, "Token 'other' does not exist"),
        (
            {"module": Path("/nonexistent/module.so")},
            TokenRefused,
            "PKCS#11 module /nonexistent/module.so does not exist",
        ),
        ({"module": Path("/etc/hostname")}, TokenRefused, "/etc/hostname is not a PKCS#11 module"),
    ],
)
def test_configuration_error_is_named(hsm, changes, error, words):
    with pytest.raises(error, match=words):
        hsm.token(**changes).key(b"k")
    with pytest.raises(TokenRefused, match="has no key 6b"):
        hsm.token().key(b"k")
