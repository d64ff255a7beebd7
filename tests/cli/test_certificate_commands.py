import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from sqlalchemy import Engine, select

from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry
from pki.keys import load_key
from pki.names import read_sans
from tests.cli.conftest import Admit
from tests.enrolment.conftest import request_der
from tests.pki.openssl import openssl, verify


def _issue(admit: Admit, folder: Path, *more: str, profile: str = "device", name: str = "laptop 1") -> Any:
    return admit.json("cert", "issue", "-t", "alpha", "--profile", profile, "--name", name, "--out", str(folder), *more)


def test_device_certificate_has_a_private_key_file(alpha: Admit, tmp_path: Path) -> None:
    issued = _issue(alpha, tmp_path / "out", "--san", "dns:laptop1.alpha.example")
    files = {kind: Path(path) for kind, path in issued["files"].items()}
    suffixes = {path.name.removeprefix("laptop-1") for path in files.values()}
    assert suffixes == {".key", ".pem", ".chain.pem", ".ca.pem", ".p12", ".p12-password"}
    modes = {kind: stat.S_IMODE(path.stat().st_mode) for kind, path in files.items()}
    assert modes == {"key": 0o600, "p12": 0o600, "password": 0o600, "cert": 0o644, "chain": 0o644, "ca": 0o644}
    assert verify("sslclient", files["ca"], files["chain"], files["cert"]).returncode == 0
    opened = openssl("pkcs12", "-in", str(files["p12"]), "-passin", f"file:{files['password']}", "-nodes")
    assert opened.returncode == 0, opened.stderr
    shown = alpha.json("cert", "show", issued["serial"], "-t", "alpha")
    assert (shown["status"], shown["names"]) == ("valid", ["dns:laptop1.alpha.example"])


def test_password_file_and_legacy_bundle_are_used(alpha: Admit, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("correct horse\nnot this line\n")
    more = ("--p12-password-file", str(password), "--p12-legacy")
    files = _issue(alpha, tmp_path / "out", *more, profile="user", name="eve@alpha.example")["files"]
    assert "password" not in files
    shown = openssl("pkcs12", "-info", "-in", files["p12"], "-passin", "pass:correct horse", "-nodes")
    assert shown.returncode == 0
    assert b"3-KeyTripleDES" in shown.stderr


def test_csr_is_signed_without_key_or_bundle(alpha: Admit, tmp_path: Path) -> None:
    request = tmp_path / "laptop.csr"
    command = "openssl req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=x -keyout /dev/null -out"
    subprocess.run([*command.split(), request], check=True, capture_output=True)
    files = _issue(alpha, tmp_path / "out", "--csr", str(request))["files"]
    assert set(files) == {"cert", "chain", "ca"}


def test_server_certificate_key_stays_local(alpha: Admit, tmp_path: Path) -> None:
    issued = _issue(alpha, tmp_path / "out", profile="server", name="radius.alpha.example")
    assert set(issued["files"]) == {"cert", "chain", "ca"}
    assert issued["profile"] == "eap-server"
    files = {kind: Path(path) for kind, path in issued["files"].items()}
    assert verify("sslserver", files["ca"], files["chain"], files["cert"]).returncode == 0


def test_certificate_is_suspended_reinstated_and_revoked(alpha: Admit, tmp_path: Path) -> None:
    serial = _issue(alpha, tmp_path)["serial"]
    assert alpha.json("cert", "suspend", serial, "-t", "alpha")["status"] == "suspended"
    assert [row["serial"] for row in alpha.json("cert", "list", "-t", "alpha", "--status", "suspended")] == [serial]
    assert alpha.json("cert", "reinstate", serial, "-t", "alpha")["status"] == "valid"
    revoked = alpha.json("cert", "revoke", serial, "-t", "alpha", "--reason", "keyCompromise")
    assert (revoked["status"], revoked["revocation_reason"]) == ("revoked", "keyCompromise")
    again = alpha.run("cert", "reinstate", serial, "-t", "alpha")
    assert again.exit_code == 1
    assert "permanently revoked. Issue a new certificate." in again.stderr
    # The tenant's server certificate is the other one.
    assert {row["profile"] for row in alpha.json("cert", "list", "-t", "alpha")} == {"eap-server", "eap-client-device"}


def test_server_certificate_waits_for_its_start_day(alpha: Admit, tmp_path: Path) -> None:
    more = ("--present-from", "2026-12-24T06:00:00")
    serial = _issue(alpha, tmp_path, *more, profile="server", name="radius.alpha.example")["serial"]
    shown = alpha.json("cert", "show", serial, "-t", "alpha")
    assert shown["present_from"] == "2026-12-24T06:00:00Z"


def test_changes_are_audited_with_the_user(alpha: Admit, tmp_path: Path, app_engine: Engine) -> None:
    serial = _issue(alpha, tmp_path)["serial"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.target == serial).order_by(AuditEntry.id)).all()
    assert [entry.action for entry in entries] == ["certificate.intend", "certificate.issue"]
    assert all(entry.actor.startswith("cli:") for entry in entries)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--san", "host.example"], "must begin with one of dns:, email:, uri:, upn:"),
        (["--san", "email:eve@alpha.example"], "profile eap-client-device allows these kinds: dns, uri"),
        (["--csr", "/dev/null"], "not a readable PKCS#10 request"),
        (["--name", "x" * 65], "at most 64 are allowed"),
        (["--name", ""], "is empty"),
        (["--tenant", "nobody"], "Tenant 'nobody' does not exist"),
        (["--out", "/proc/nowhere"], "Cannot create the folder"),
        (["--profile", "server", "--name", "not a name"], "not a host name"),
        (["--profile", "server", "--p12-legacy"], "creates no PKCS#12 file"),
        (["--profile", "server", "--user", "anna"], "cannot belong to an endpoint or user"),
        (["--profile", "radsec-server", "--endpoint", "001122334455"], "cannot belong to an endpoint or user"),
        (["--profile", "radsec-server", "--name", "not a name"], "not a host name"),
        (["--profile", "radsec-server", "--present-from", "2999-01-01"], "Only valid for server certificates"),
        (
            ["--profile", "server", "--name", "radius.example", "--present-from", "2999-01-01"],
            "would expire before the cell starts to use it",
        ),
        (["--present-from", "2999-01-01"], "Only valid for server certificates"),
        (["--user", "anna"], "User 'anna' does not exist"),
        (["--endpoint", "001122334455"], "Endpoint 00:11:22:33:44:55 does not exist"),
    ],
)
def test_invalid_csr_is_rejected_and_issues_nothing(
    alpha: Admit, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    basic = ["-t", "alpha", "--profile", "device", "--name", "laptop", "--out", str(tmp_path / "out")]
    result = alpha.run("cert", "issue", *basic, *arguments)
    assert result.exit_code == (1 if "--out" in arguments else 2)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert len(alpha.json("cert", "list", "-t", "alpha")) == 1
    assert not (tmp_path / "out").exists()


def test_short_password_is_rejected_before_issuing(alpha: Admit, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("short\n")
    basic = ["-t", "alpha", "--profile", "device", "--name", "laptop", "--out", str(tmp_path / "out")]
    result = alpha.run("cert", "issue", *basic, "--p12-password-file", str(tmp_path / "password"))
    assert result.exit_code == 1
    assert "shorter than 8" in result.stderr
    assert len(alpha.json("cert", "list", "-t", "alpha")) == 1


def test_existing_files_are_not_overwritten(alpha: Admit, tmp_path: Path) -> None:
    key = Path(_issue(alpha, tmp_path)["files"]["key"])
    before = key.read_bytes()
    basic = ["-t", "alpha", "--profile", "device", "--name", "laptop 1", "--out", str(tmp_path)]
    result = alpha.run("cert", "issue", *basic)
    assert result.exit_code == 1
    assert "These files exist" in result.stderr
    assert key.read_bytes() == before


def test_path_in_a_name_stays_in_the_folder(alpha: Admit, tmp_path: Path) -> None:
    files = _issue(alpha, tmp_path / "out", name="../../etc/x")["files"]
    assert {Path(path).parent for path in files.values()} == {tmp_path / "out"}


def test_authorities_are_listed_shown_and_exported(alpha: Admit, tmp_path: Path) -> None:
    listed = alpha.json("ca", "list", "-t", "alpha")
    of = {row["kind"]: row["id"] for row in listed}
    root = alpha.json("ca", "show", "-t", "alpha")
    assert root["id"] == of["root"]
    assert alpha.json("ca", "show", of["issuing"], "-t", "alpha")["kind"] == "issuing"
    exported = alpha.run("ca", "export", "-t", "alpha")
    assert exported.exit_code == 0
    alpha.json("ca", "export", "issuing", "-t", "alpha", "--out", str(tmp_path / "issuing.pem"))
    (tmp_path / "root.pem").write_text(exported.stdout)
    checked = openssl("verify", "-CAfile", str(tmp_path / "root.pem"), str(tmp_path / "issuing.pem"))
    assert checked.returncode == 0, checked.stderr
    fingerprint = openssl("x509", "-noout", "-fingerprint", "-sha256", data=exported.stdout.encode()).stdout.decode()
    assert fingerprint.strip().partition("=")[2].lower() == root["sha256"]
    assert json.loads(alpha.run("ca", "export", "-t", "alpha", "--json").stdout)["pem"] == exported.stdout


def test_unknown_serial_and_authority_are_rejected(alpha: Admit) -> None:
    for arguments, complaint in (
        (("cert", "show", "0a"), "Certificate 0a does not exist"),
        (("cert", "revoke", "hello"), "Invalid serial number"),
        (("ca", "show", "external"), "Unknown certificate authority 'external'"),
    ):
        result = alpha.run(*arguments, "-t", "alpha")
        assert result.exit_code == 2
        assert complaint in result.stderr


def test_nas_certificate_is_issued_with_its_key(alpha: Admit, tmp_path: Path) -> None:
    issued = _issue(alpha, tmp_path / "out", "--san", "dns:switch-1.example", profile="nas", name="switch-1")
    assert issued["profile"] == "radsec-nas"
    assert {"key", "cert", "ca"} <= set(issued["files"])


def test_radsec_server_gets_or_keeps_its_key(alpha: Admit, tmp_path: Path) -> None:
    issued = _issue(alpha, tmp_path / "out", profile="radsec-server", name="radsec.alpha.example")
    assert issued["profile"] == "radsec-server"
    files = {kind: Path(path) for kind, path in issued["files"].items()}
    assert verify("sslserver", files["ca"], files["chain"], files["cert"]).returncode == 0
    assert verify("sslclient", files["ca"], files["chain"], files["cert"]).returncode != 0
    certificate = x509.load_pem_x509_certificate(files["cert"].read_bytes())
    assert [str(item) for item in read_sans(certificate)] == ["dns:radsec.alpha.example"]
    assert load_key(files["key"].read_bytes()).public_key() == certificate.public_key()
    (tmp_path / "own.csr").write_bytes(request_der("radsec.alpha.example"))
    more = ("--csr", str(tmp_path / "own.csr"), "--san", "dns:radsec.alpha.example", "--san", "dns:r2.alpha.example")
    theirs = _issue(alpha, tmp_path / "theirs", *more, profile="radsec-server", name="radsec.alpha.example")
    assert set(theirs["files"]) == {"cert", "chain", "ca"}
    shown = alpha.json("cert", "show", theirs["serial"], "-t", "alpha")
    assert shown["names"] == ["dns:radsec.alpha.example", "dns:r2.alpha.example"]
    expiring = alpha.json("cert", "expiring", "-t", "alpha", "--days", "900", "--kind", "server")
    assert issued["profile"] in {row["profile"] for row in expiring}


def test_expiring_certificates_are_listed_by_expiry(alpha: Admit, tmp_path: Path) -> None:
    assert alpha.json("cert", "expiring", "-t", "alpha") == []
    issued = []
    for days in ("30", "20"):
        alpha.json("cert-profile", "set", "eap-client-device", "-t", "alpha", "--validity-days", days)
        issued.append(_issue(alpha, tmp_path / "out", name=f"laptop {days}")["serial"])
    listed = alpha.json("cert", "expiring", "-t", "alpha")
    assert [(row["serial"], row["days_left"]) for row in listed] == [(issued[1], 19), (issued[0], 29)]
    # Without a tenant: those of all tenants.
    everywhere = alpha.json("cert", "expiring")
    assert [(row["tenant"], row["serial"]) for row in everywhere] == [("alpha", issued[1]), ("alpha", issued[0])]
    assert alpha.json("cert", "expiring", "-t", "alpha", "--kind", "server") == []
    authorities = alpha.json("cert", "expiring", "-t", "alpha", "--days", "4000", "--kind", "authority")
    assert [row["profile"] for row in authorities] == ["issuing"]


def test_offline_root_key_returns_to_sign(alpha: Admit, tmp_path: Path) -> None:
    passphrase, short, out = tmp_path / "passphrase", tmp_path / "short", tmp_path / "root.key"
    passphrase.write_text("correct horse battery staple\n")
    short.write_text("correct horse\n")
    export = ("ca", "export-root-key", "-t", "alpha", "--out", str(out), "--forget", "--passphrase-file")
    assert "at least 16 characters" in alpha.run(*export, str(short)).output
    assert not out.exists()
    assert alpha.json(*export, str(passphrase))["signs_here"] is False
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    checked = openssl("pkey", "-in", str(out), "-passin", f"file:{passphrase}", "-noout", "-check")
    assert checked.returncode == 0, checked.stderr
    # Devices are still served. New authorities and roots without a cross-certificate are rejected.
    assert _issue(alpha, tmp_path / "out")["serial"]
    assert "does not store the key of alpha Root CA" in alpha.run("ca", "rollover", "-t", "alpha").output
    refused = alpha.run("ca", "rollover", "-t", "alpha", "--root")
    assert (
        refused.exit_code,
        "./admit ca import-root-key FILE, --present-from DATE" in refused.stderr,
    ) == (1, True)
    bring = ("ca", "import-root-key", "-t", "alpha", str(out), "--passphrase-file")
    short.write_text("wrong horse battery staple\n")
    assert "passphrase is wrong" in alpha.run(*bring, str(short)).output
    stranger = tmp_path / "stranger.key"
    made = openssl(
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-aes256",
        "-pass",
        f"file:{passphrase}",
        "-out",
        str(stranger),
    )
    assert made.returncode == 0, made.stderr
    foreign = alpha.run("ca", "import-root-key", "-t", "alpha", str(stranger), "--passphrase-file", str(passphrase))
    assert "not contain the key of alpha Root CA" in foreign.output
    assert alpha.json(*bring, str(passphrase))["signs_here"] is True
    assert alpha.run("ca", "rollover", "-t", "alpha").exit_code == 0
