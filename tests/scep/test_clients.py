"""SCEP clients of other vendors: strongSwan's pki, micromdm's scepclient, and OpenSSL."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import FastAPI

from pki.names import read_common_name
from tests.api.app_server import serve_app_on_port
from tests.factories.certificates import Certified
from tests.scep.client import Device, rsa_key, signing_request
from tests.scep.conftest import Server


@pytest.fixture
def url(app: FastAPI, alpha: Certified) -> Iterator[str]:
    with serve_app_on_port(app) as address:
        yield f"{address}/scep/alpha"


def run(*command: str | Path, folder: Path, succeeds: bool = True) -> subprocess.CompletedProcess[str]:
    # On machines without tokens, strongSwan's token plugins log errors.
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
    return done


def write_key(path: Path) -> None:
    """Write a key in the traditional PEM format that scepclient reads."""
    path.write_bytes(rsa_key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))


class StrongSwan:
    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        run(
            "pki", "--scepca", "--url", url, "--caout", "ca.pem", "--raout", "ra.pem", "--outform", "pem", folder=folder
        )
        # One file per certificate. The name of the first file has no number.
        self.authorities = sorted(folder.glob("ca*.pem"))

    def scep(self, key: str, *options: str) -> bytes:
        trust = [part for path in self.authorities for part in ("--cacert", str(path))]
        command = ["pki", "--scep", "--url", self.url, "--in", key, "--dn", "CN=swan", "--cacert-enc", "ra.pem"]
        command += ["--cacert-sig", "ra.pem", *trust, *options]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def swan(tmp_path: Path, url: str) -> StrongSwan:
    return StrongSwan(tmp_path, url)


def test_strongswan_enrols_and_renews(swan, tmp_path, challenge, alpha):
    write_key(tmp_path / "old.key")
    first = swan.scep("old.key", "--password", challenge)
    certificate = x509.load_der_x509_certificate(first)
    certificate.verify_directly_issued_by(x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der))
    (tmp_path / "old.crt").write_bytes(first)
    write_key(tmp_path / "new.key")
    second = swan.scep("new.key", "--cert", "old.crt", "--key", "old.key")
    renewed = x509.load_der_x509_certificate(second)
    assert renewed.subject == certificate.subject
    assert renewed.serial_number != certificate.serial_number


def test_scepclient_is_rejected_with_bad_digest_as_reason(tmp_path, url, challenge):
    """Debian's scepclient always signs with SHA-1, even if the server does not list it."""
    write_key(tmp_path / "client.key")
    with httpx.Client(trust_env=False) as client:
        registration = Server(client, url).registration()
    done = run(
        *("scepclient", "-server-url", url, "-private-key", "client.key", "-certificate", "client.crt"),
        *("-cn", "micro", "-challenge", challenge),
        *("-ca-fingerprint", registration.fingerprint(hashes.SHA256()).hex()),
        folder=tmp_path,
        succeeds=False,
    )
    assert "badAlg" in done.stdout + done.stderr
    assert not (tmp_path / "client.crt").exists()


def test_openssl_envelope_is_decrypted_and_reply_verifies(server, challenge, tmp_path):
    device = Device("ossl")
    registration = server.registration()
    authorities = [certificate for certificate in server.authorities() if certificate != registration]
    files = {
        "request.der": signing_request(device.key, "ossl", challenge),
        "ra.pem": registration.public_bytes(Encoding.PEM),
        "me.pem": device.identity.public_bytes(Encoding.PEM),
        "me.key": device.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "authorities.pem": b"".join(certificate.public_bytes(Encoding.PEM) for certificate in authorities),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    def openssl(command: str) -> None:
        run("openssl", *command.split(), folder=tmp_path)

    openssl("cms -encrypt -binary -aes-256-cbc -outform DER -in request.der -out envelope ra.pem")
    message = device.signed((tmp_path / "envelope").read_bytes())
    (tmp_path / "reply").write_bytes(server.http.post(server.path, content=message).content)
    openssl("cms -verify -binary -inform DER -in reply -CAfile authorities.pem -purpose any -out inner")
    openssl("cms -decrypt -binary -inform DER -in inner -recip me.pem -inkey me.key -out certificates")
    openssl("pkcs7 -inform DER -in certificates -print_certs -out mine.pem")
    certificate = x509.load_pem_x509_certificate((tmp_path / "mine.pem").read_bytes())
    assert certificate.public_key() == device.key.public_key()
    assert read_common_name(certificate.subject) == "ossl"
