"""OCSP clients of other vendors query the running application: openssl and GnuTLS."""

import base64
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from fastapi import FastAPI
from sqlalchemy import Engine

from nac.certificates.service import revoke_certificate, suspend_certificate
from nac.kit.db import TenantScope, session_scope
from tests.api.app_server import serve_app_on_port
from tests.api.conftest import publish_all
from tests.factories.certificates import certify
from tests.factories.tenancy import ACTOR, Platform, make_tenant


@dataclass(frozen=True)
class PublishedChain:
    """Files of a tenant's chain and of three certificates, and the addresses of the tenant's authorities."""

    folder: Path
    ocsp: str
    lists: tuple[str, str]

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def fetch(self, url: str, name: str) -> None:
        (self.folder / name).write_bytes(httpx.get(url, trust_env=False).raise_for_status().content)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, timeout=30)


@pytest.fixture
def published(
    public_app: FastAPI, app_engine: Engine, worker_engine: Engine, platform: Platform, tmp_path: Path
) -> Iterator[PublishedChain]:
    alpha = certify(app_engine, make_tenant(app_engine, platform, "alpha").id)
    verbs = {"good": None, "revoked": revoke_certificate, "suspended": suspend_certificate}
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        for name, verb in verbs.items():
            issued = alpha.issue(session, common_name=name)
            (tmp_path / f"{name}.pem").write_bytes(issued.certificate.public_bytes(Encoding.PEM))
            if verb is not None:
                verb(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=issued.serial.hex(), now=alpha.now)
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        certificate = x509.load_der_x509_certificate(authority.certificate_der)
        (tmp_path / f"{authority.kind}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    chain = (tmp_path / "issuing.pem").read_bytes() + (tmp_path / "root.pem").read_bytes()
    (tmp_path / "chain.pem").write_bytes(chain)
    publish_all(worker_engine)
    with serve_app_on_port(public_app) as url:
        lists = [f"{url}/crl/{row.id}.crl" for row in (alpha.authorities.root, alpha.authorities.issuing)]
        yield PublishedChain(tmp_path, f"{url}/ocsp/{alpha.authorities.issuing.id}", (lists[0], lists[1]))


_TRUST = ("-CAfile", "root.pem", "-verify_other", "issuing.pem")


def test_openssl_gets_and_verifies_the_status(published: PublishedChain) -> None:
    for digest, nonce in product(("-sha1", "-sha256"), ("-nonce", "-no_nonce")):
        for name, told in (("good", "good"), ("revoked", "revoked"), ("suspended", "revoked")):
            asked = ["-issuer", "issuing.pem", digest, "-cert", f"{name}.pem", "-url", published.ocsp]
            found = published.run("openssl", "ocsp", *asked, nonce, *_TRUST)
            assert "Response verify OK" in found.stderr, found.stderr
            assert f"{name}.pem: {told}" in found.stdout
            assert "WARNING" not in found.stderr, found.stderr
        assert "Reason: certificateHold" in found.stdout
    # Known and unknown serials at once.
    asked = ["-issuer", "issuing.pem", "-cert", "good.pem", "-cert", "revoked.pem", "-serial", "0x1234"]
    found = published.run("openssl", "ocsp", *asked, "-url", published.ocsp, *_TRUST)
    assert "Response verify OK" in found.stderr, found.stderr
    for line in ("good.pem: good", "revoked.pem: revoked", "0x1234: unknown"):
        assert line in found.stdout


def test_openssl_reports_a_wrong_issuer(published: PublishedChain):
    asked = ["-issuer", "root.pem", "-cert", "issuing.pem", "-url", published.ocsp, "-CAfile", "root.pem"]
    found = published.run("openssl", "ocsp", *asked)
    assert "unauthorized (6)" in found.stdout + found.stderr


def test_gnutls_gets_and_verifies_the_status(published: PublishedChain) -> None:
    for options, name in product((("--nonce",), ()), ("good", "revoked")):
        asked = [f"--ask={published.ocsp}", "--load-cert", f"{name}.pem", "--load-issuer", "issuing.pem"]
        found = published.run("ocsptool", *asked, *options, "--load-trust", "chain.pem")
        text = found.stdout + found.stderr
        assert "Verifying OCSP Response: Success" in text, text
        assert f"Certificate Status: {name}" in text, text


def test_openssl_reads_the_get_response(published: PublishedChain):
    """`openssl` has no option for GET. The test builds the URL from openssl's request (RFC 6960 A.1)."""
    published.run("openssl", "ocsp", "-issuer", "issuing.pem", "-cert", "good.pem", "-no_nonce", "-reqout", "request")
    written = quote(base64.b64encode((published.folder / "request").read_bytes()), safe="")
    published.fetch(f"{published.ocsp}/{written}", "answer")
    asked = ["-issuer", "issuing.pem", "-cert", "good.pem", "-no_nonce", "-respin", "answer"]
    found = published.run("openssl", "ocsp", *asked, *_TRUST)
    assert "Response verify OK" in found.stderr
    assert "good.pem: good" in found.stdout


def test_openssl_verifies_the_chain_against_fetched_crls(published: PublishedChain):
    options = []
    for name, url in zip(("root", "issuing"), published.lists, strict=True):
        published.fetch(url, f"{name}.der")
        published.run("openssl", "crl", "-inform", "DER", "-in", f"{name}.der", "-out", f"{name}.crl")
        options += ["-CRLfile", f"{name}.crl"]
    command = ["openssl", "verify", "-x509_strict", "-crl_check_all", "-CAfile", "root.pem", *options]
    for name in ("good", "revoked", "suspended"):
        found = published.run(*command, "-untrusted", "issuing.pem", f"{name}.pem")
        assert (found.returncode == 0) == (name == "good"), found.stderr
        assert ("certificate revoked" in found.stderr) == (name != "good")


def test_gnutls_verifies_the_chain_against_the_crl(published: PublishedChain):
    published.fetch(published.lists[1], "issuing.der")
    found = published.run("certtool", "--crl-info", "--inder", "--infile", "issuing.der")
    assert "Revoked certificates (2)" in found.stdout, found.stdout + found.stderr
    published.run("openssl", "crl", "-inform", "DER", "-in", "issuing.der", "-out", "issuing.crl")
    asked = ["--verify-crl", "--load-ca-certificate", "issuing.pem", "--infile", "issuing.crl"]
    verified = published.run("certtool", *asked)
    assert "Verified" in verified.stdout + verified.stderr, verified.stdout + verified.stderr
