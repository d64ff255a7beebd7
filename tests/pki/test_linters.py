"""`pkilint` reports no error (RFC 5280, RFC 6960) in any certificate, CRL or OCSP response that Admit signs.

Its exit status is the number of errors.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from pki.crl import REVOCATION_REASONS, Revocation, build_crl
from pki.issuance import Issuer, issue
from pki.keys import generate_key
from pki.names import San, SanKind, subject_name
from pki.ocsp import CertificateStatus, read_request
from pki.profiles import PROFILES
from pki.serials import random_serial, serial_bytes
from tests.pki.status_answers import HOUR, LOCATIONS, make_signer, question

_NAMES: dict[SanKind, str] = {
    "dns": "laptop.alpha.example",
    "email": "ada@alpha.example",
    # The linter rejects URIs without a host part.
    "uri": "https://alpha.example/devices/1",
    "upn": "ada@alpha.example",
}


def lint(tool: str, data: bytes, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    file = folder / "linted"
    file.write_bytes(data)
    command = [str(Path(sys.executable).with_name(tool)), "lint", "--severity", "WARNING", *options, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def require_clean(tool: str, data: bytes, folder: Path, *options: str) -> None:
    found = lint(tool, data, folder, *options)
    assert (found.returncode, found.stdout.strip()) == (0, ""), found.stdout + found.stderr


def test_linter_detects_an_error(chain, tmp_path):
    """Without this test, a broken linter would produce a report without errors."""
    wrong = chain.issue("eap-client-device", "laptop 1", San("uri", "urn:no:authority")).public_bytes(Encoding.DER)
    found = lint("lint_pkix_cert", wrong, tmp_path)
    assert found.returncode > 0
    assert "ERROR" in found.stdout


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "root"])
def test_certificates_of_every_profile_pass_the_linter(chain, tmp_path, name):
    profile = PROFILES[name]
    certificate = issue(
        profile,
        public_key=generate_key(profile.key).public_key(),
        subject=subject_name("laptop.alpha.example", organisation="Alpha"),
        sans=[San(kind, _NAMES[kind]) for kind in sorted(profile.allowed_names)],
        issuer=chain.root if profile.authority else chain.issuing,
        now=chain.now,
        serial=random_serial(),
        locations=LOCATIONS,
    )
    require_clean("lint_pkix_cert", certificate.public_bytes(Encoding.DER), tmp_path)


def test_root_passes_the_linter(chain, tmp_path):
    require_clean("lint_pkix_cert", chain.root.certificate.public_bytes(Encoding.DER), tmp_path)


@pytest.mark.parametrize("reasons", [[], list(REVOCATION_REASONS)])
@pytest.mark.parametrize("which", ["root", "issuing"])
def test_crl_passes_the_linter(chain, tmp_path, which, reasons):
    issuer: Issuer = getattr(chain, which)
    revoked = [(serial_bytes(random_serial()), Revocation(chain.now, reason)) for reason in reasons]
    crl = build_crl(issuer, revoked, number=300, this_update=chain.now, next_update=chain.now + 100 * HOUR)
    require_clean("lint_crl", crl, tmp_path, "--type", "CRL", "--profile", "PKIX")


def test_ocsp_responses_pass_the_linter(chain, tmp_path):
    signer = make_signer(chain)
    certificate = chain.issue("eap-client-device", "laptop 1")
    statuses: list[CertificateStatus] = [
        "good",
        "unknown",
        Revocation(chain.now, "keyCompromise"),
        Revocation(chain.now, "unspecified"),
    ]
    for status, nonce in zip(statuses, [None, b"n" * 32] * 2, strict=True):
        request = read_request(question(chain, certificate, nonce))
        answer = signer.answer(request, [status], this_update=chain.now, next_update=chain.now + HOUR)
        require_clean("lint_ocsp_response", answer, tmp_path)
