"""File formats for import and export: keys, requests, PEM, PKCS#12."""

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pki.bundles import build_pkcs12
from pki.errors import BundleNotAllowed, KeyNotAllowed, RequestNotAllowed
from pki.keys import PrivateKey, generate_key, is_same_public_key, key_pem, load_key
from pki.names import San
from pki.signing_requests import read_signing_request
from tests.pki.conftest import Chain
from tests.pki.openssl import answer, openssl

_PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return generate_key()


@pytest.fixture(scope="module")
def certificate(chain: Chain, key: PrivateKey) -> x509.Certificate:
    return chain.issue("eap-client-device", "Müllers laptop", key=key)


@pytest.mark.parametrize(
    ("legacy", "scheme", "mac"),
    [
        (False, b"PBES2, PBKDF2, AES-256-CBC, Iteration 600000, PRF hmacWithSHA256", b"MAC: sha256"),
        (True, b"pbeWithSHA1And3-KeyTripleDES-CBC, Iteration 20000", b"MAC: sha1"),
    ],
)
def test_openssl_opens_the_pkcs12_file(chain, key, certificate, tmp_path, legacy, scheme, mac):
    authorities = [chain.issuing.certificate, chain.root.certificate]
    content = {"key": key, "certificate": certificate, "chain": authorities, "password": _PASSWORD}
    file = tmp_path / "laptop.p12"
    file.write_bytes(build_pkcs12(friendly_name="Müllers laptop", legacy=legacy, **content))
    shown = openssl("pkcs12", "-info", "-in", str(file), "-passin", f"pass:{_PASSWORD}", "-nodes")
    assert shown.returncode == 0, shown.stderr
    assert scheme in shown.stderr
    assert mac in shown.stderr
    assert x509.load_pem_x509_certificates(shown.stdout) == [certificate, *authorities]
    begin = shown.stdout.index(b"-----BEGIN PRIVATE KEY")
    assert is_same_public_key(load_key(shown.stdout[begin:]).public_key(), key.public_key())
    wrong = openssl("pkcs12", "-in", str(file), "-passin", "pass:incorrect horse", "-nodes")
    assert wrong.returncode != 0


def test_pkcs12_with_short_password_or_wrong_key_is_rejected(key, certificate):
    with pytest.raises(BundleNotAllowed, match="at least 8"):
        build_pkcs12(friendly_name="x", key=key, certificate=certificate, chain=[], password="1234567")
    with pytest.raises(BundleNotAllowed, match="does not belong"):
        build_pkcs12(friendly_name="x", key=generate_key(), certificate=certificate, chain=[], password=_PASSWORD)


@pytest.mark.parametrize("kind", ["ecdsa-p256", "ecdsa-p384", "rsa-2048"])
def test_key_round_trips_as_der_and_pem(kind):
    key = generate_key(kind)
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for written in (der, key_pem(key)):
        assert is_same_public_key(load_key(written).public_key(), key.public_key())
    assert openssl("pkey", "-check", "-noout", data=key_pem(key)).returncode == 0


def test_unreadable_or_unsupported_key_is_rejected():
    edwards = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    encrypted = answer(
        "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:x" * 4
    )
    for data in (b"", b"-----BEGIN PRIVATE KEY-----\n", b"\x30\x00", edwards, encrypted.encode()):
        with pytest.raises(KeyNotAllowed):
            load_key(data)


def _request(tmp_path: Path, *arguments: str) -> bytes:
    command = ["openssl", "req", "-new", "-nodes", "-keyout", "/dev/null", "-subj", "/O=Alpha/CN=laptop 1", *arguments]
    return subprocess.run(command, check=True, capture_output=True, cwd=tmp_path).stdout


_P256 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


@pytest.mark.parametrize("form", ["PEM", "DER"])
def test_openssl_request_is_parsed(tmp_path, form):
    names = ("-addext", "subjectAltName=DNS:laptop.alpha.example")
    request = read_signing_request(_request(tmp_path, *_P256, *names, "-outform", form))
    assert (request.common_name, request.sans) == ("laptop 1", (San("dns", "laptop.alpha.example"),))


def test_request_without_names_has_no_names():
    key = generate_key()
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    request = read_signing_request(made.public_bytes(Encoding.DER))
    assert (request.common_name, request.sans) == ("", ())
    assert is_same_public_key(request.public_key, key.public_key())


def test_invalid_request_is_rejected(tmp_path):
    made = _request(tmp_path, *_P256, "-outform", "DER")
    version_1 = made.replace(bytes.fromhex("020100"), bytes.fromhex("020101"), 1)
    for data, error, words in (
        (made.replace(b"laptop 1", b"laptop 2"), RequestNotAllowed, "not signed with the key that it contains"),
        (version_1, RequestNotAllowed, "not a readable"),
        (_request(tmp_path, "-newkey", "rsa:1024"), KeyNotAllowed, "1024 bits; 2,048 to 4,096"),
        (_request(tmp_path, *_P256, "-sha1"), RequestNotAllowed, "SHA-256, SHA-384 or SHA-512"),
        (_request(tmp_path, "-newkey", "rsa:2048", "-md5"), RequestNotAllowed, "SHA-256, SHA-384 or SHA-512"),
        (b"", RequestNotAllowed, "not a readable|maximum is"),
        (b"-----BEGIN CERTIFICATE REQUEST-----", RequestNotAllowed, "not a readable|maximum is"),
        (b"\x30\x00", RequestNotAllowed, "not a readable|maximum is"),
        (b"\0" * 40_000, RequestNotAllowed, "not a readable|maximum is"),
    ):
        with pytest.raises(error, match=words):
            read_signing_request(data)
