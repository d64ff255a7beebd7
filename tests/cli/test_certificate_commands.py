"""`./admit cert issue`, which writes keys and certificates to files, and `./admit cert expiring`."""

import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pki.keys import load_key
from pki.names import read_sans
from tests.cli.conftest import Admit
from tests.enrolment.conftest import request_der
from tests.pki.openssl import openssl, verify

OF = ("-t", "alpha")


def issue(admit: Admit, folder: Path, *more: str, profile: str = "device", name: str = "laptop 1") -> Any:
    return admit.json("cert", "issue", *OF, "--profile", profile, "--name", name, "--out", str(folder), *more)


def paths(issued: dict[str, Any]) -> dict[str, Path]:
    return {kind: Path(path) for kind, path in issued["files"].items()}


def test_device_files_are_private_and_usable(alpha: Admit, tmp_path: Path) -> None:
    issued = issue(alpha, tmp_path / "out", "--san", "dns:laptop1.alpha.example")
    files = paths(issued)
    suffixes = {path.name.removeprefix("laptop-1") for path in files.values()}
    assert suffixes == {".key", ".pem", ".chain.pem", ".ca.pem", ".p12", ".p12-password"}
    modes = {kind: stat.S_IMODE(path.stat().st_mode) for kind, path in files.items()}
    assert modes == {"key": 0o600, "p12": 0o600, "password": 0o600, "cert": 0o644, "chain": 0o644, "ca": 0o644}
    assert verify("sslclient", files["ca"], files["chain"], files["cert"]).returncode == 0
    opened = openssl("pkcs12", "-in", str(files["p12"]), "-passin", f"file:{files['password']}", "-nodes")
    assert opened.returncode == 0, opened.stderr
    shown = alpha.json("cert", "show", issued["serial"], *OF)
    assert (shown["status"], shown["names"]) == ("valid", ["dns:laptop1.alpha.example"])
    before = files["key"].read_bytes()
    again = alpha.run("cert", "issue", *OF, "--profile", "device", "--name", "laptop 1", "--out", str(tmp_path / "out"))
    assert (again.exit_code, "These files exist" in again.stderr, files["key"].read_bytes()) == (1, True, before)
    files = paths(issue(alpha, tmp_path / "out", name="../../etc/x"))
    assert {path.parent for path in files.values()} == {tmp_path / "out"}


def test_password_file_and_legacy_bundle_are_used(alpha: Admit, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("correct horse\nnot this line\n")
    more = ("--p12-password-file", str(password), "--p12-legacy")
    files = issue(alpha, tmp_path / "out", *more, profile="user", name="eve@alpha.example")["files"]
    assert "password" not in files
    shown = openssl("pkcs12", "-info", "-in", files["p12"], "-passin", "pass:correct horse", "-nodes")
    assert (shown.returncode, b"3-KeyTripleDES" in shown.stderr) == (0, True)


KEYLESS = {"cert", "chain", "ca"}
WITH_KEY = {*KEYLESS, "key", "p12", "password"}


@pytest.mark.parametrize(
    ("profile", "has_csr", "stored", "written", "purpose"),
    [
        ("device", True, "eap-client-device", KEYLESS, "sslclient"),
        ("nas", False, "radsec-nas", WITH_KEY, "sslclient"),
        # The key of the RADIUS server never leaves the cell.
        ("server", False, "eap-server", KEYLESS, "sslserver"),
        ("radsec-server", False, "radsec-server", WITH_KEY, "sslserver"),
        ("radsec-server", True, "radsec-server", KEYLESS, "sslserver"),
    ],
)
def test_profile_and_csr_decide_who_has_the_key(
    alpha: Admit, tmp_path: Path, profile: str, has_csr: bool, stored: str, written: set[str], purpose: str
) -> None:
    (tmp_path / "csr").write_bytes(request_der("anyone.example"))
    more = ("--csr", str(tmp_path / "csr")) if has_csr else ()
    issued = issue(alpha, tmp_path / "out", *more, profile=profile, name="r1.alpha.example")
    files = paths(issued)
    assert (issued["profile"], set(files)) == (stored, written)
    for each in ("sslclient", "sslserver"):
        assert (verify(each, files["ca"], files["chain"], files["cert"]).returncode == 0) == (each == purpose)
    certificate = x509.load_pem_x509_certificate(files["cert"].read_bytes())
    if "key" in files:
        assert load_key(files["key"].read_bytes()).public_key() == certificate.public_key()
    if purpose == "sslserver":
        assert list(map(str, read_sans(certificate))) == ["dns:r1.alpha.example"]


def test_server_certificate_waits_for_its_start_day(alpha: Admit, tmp_path: Path) -> None:
    more = ("--present-from", "2026-12-24T06:00:00")
    serial = issue(alpha, tmp_path, *more, profile="server", name="radius.alpha.example")["serial"]
    assert alpha.json("cert", "show", serial, *OF)["present_from"] == "2026-12-24T06:00:00Z"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--san", "host.example"], "must begin with one of dns:, email:, uri:, upn:"),
        (["--csr", "/dev/null"], "not a readable PKCS#10 request"),
        (["--tenant", "nobody"], "Tenant 'nobody' does not exist"),
        (["--out", "/proc/nowhere"], "Cannot create the folder"),
        (["--p12-password-file", "{short}"], "shorter than 8"),
        (["--profile", "server", "--p12-legacy"], "creates no PKCS#12 file"),
        (["--profile", "server", "--user", "anna"], "cannot belong to an endpoint or user"),
        (["--profile", "radsec-server", "--endpoint", "001122334455"], "cannot belong to an endpoint or user"),
        (["--profile", "radsec-server", "--name", "not a name"], "not a host name"),
        (["--profile", "radsec-server", "--present-from", "2999-01-01"], "Only valid for server certificates"),
        (["--user", "anna"], "User 'anna' does not exist"),
        (["--endpoint", "001122334455"], "Endpoint 00:11:22:33:44:55 does not exist"),
    ],
)
def test_invalid_request_issues_nothing(alpha: Admit, tmp_path: Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "short").write_text("short\n")
    basic = ["--profile", "device", "--name", "laptop", "--out", str(tmp_path / "out")]
    result = alpha.run("cert", "issue", *OF, *basic, *(each.format(short=tmp_path / "short") for each in arguments))
    assert result.exit_code == (1 if {"--out", "--p12-password-file"} & set(arguments) else 2)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert len(alpha.json("cert", "list", *OF)) == 1
    assert not (tmp_path / "out").exists()


def test_expiring_certificates_are_listed_by_expiry(alpha: Admit, tmp_path: Path) -> None:
    assert alpha.json("cert", "expiring", *OF) == []
    issued = []
    for days in ("30", "20"):
        alpha.json("cert-profile", "set", "eap-client-device", *OF, "--validity-days", days)
        issued.append(issue(alpha, tmp_path / "out", name=f"laptop {days}")["serial"])
    listed = alpha.json("cert", "expiring", *OF)
    assert [(row["serial"], row["days_left"]) for row in listed] == [(issued[1], 19), (issued[0], 29)]
    # Without a tenant: those of all tenants.
    everywhere = alpha.json("cert", "expiring")
    assert [(row["tenant"], row["serial"]) for row in everywhere] == [("alpha", issued[1]), ("alpha", issued[0])]
    for days, kind, profiles in (
        ("60", "server", []),
        ("900", "server", ["eap-server"]),
        ("4000", "authority", ["issuing"]),
    ):
        found = alpha.json("cert", "expiring", *OF, "--days", days, "--kind", kind)
        assert [row["profile"] for row in found] == profiles
