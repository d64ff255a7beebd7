"""`strongSwan`'s EST client, a strict independent implementation."""

import subprocess
from pathlib import Path

from cryptography import x509

from tests.enrolment.conftest import make_secret


def pki(*arguments: str | Path, data: bytes = b"") -> bytes:
    done = subprocess.run(["pki", *map(str, arguments)], input=data, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_strongswan_enrols_and_renews(est, app_engine, alpha):
    url = f"https://127.0.0.1:{est.port}/alpha"
    token = make_secret(app_engine, alpha).token
    first, second, held = est.folder / "first.key", est.folder / "second.key", est.folder / "first.pem"
    for key in (first, second):
        key.write_bytes(pki("--gen", "--type", "ecdsa", "--size", "256", "--outform", "pem"))
    pki("--estca", "--url", url, "--cacert", est.ca, "--caout", est.folder / "ca", "--outform", "pem")
    found = {path.read_bytes() for path in est.folder.glob("ca*") if path.is_file()}
    assert {x509.load_pem_x509_certificate(pem).subject.rfc4514_string() for pem in found} == {
        x509.load_der_x509_certificate(row.certificate_der).subject.rfc4514_string()
        for row in (alpha.authorities.root, alpha.authorities.issuing)
    }
    authorities = [word for path in sorted(est.folder.glob("ca*")) for word in ("--cacert", path)]
    common = ("--est", "--url", url, "--cacert", est.ca, *authorities, "--outform", "pem")
    wanted = pki("--req", "--type", "ecdsa", "--in", first, "--dn", "CN=laptop", "--outform", "pem")
    held.write_bytes(pki(*common, "--userpass", f"{token.public_id}:{token.secret}", data=wanted))
    again = pki("--req", "--type", "ecdsa", "--in", second, "--dn", "CN=laptop", "--outform", "pem")
    renewed = x509.load_pem_x509_certificate(pki(*common, "--cert", held, "--key", first, data=again))
    assert renewed.subject == x509.load_pem_x509_certificate(held.read_bytes()).subject
