import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from nac.db import PlatformScope, session_scope
from nac.models import AuditEntry
from tests.cli.conftest import Admit
from tests.pki.openssl import openssl, verify


def _issue(admit: Admit, folder: Path, *more: str, profile: str = "device", name: str = "laptop 1") -> Any:
    return admit.json("cert", "issue", "-t", "alpha", "--profile", profile, "--name", name, "--out", str(folder), *more)


def test_device_certificate_is_written_with_a_private_key_file(alpha: Admit, tmp_path: Path) -> None:
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


def test_password_file_is_used_and_legacy_bundle_made(alpha: Admit, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("correct horse\nnot this line\n")
    more = ("--p12-password-file", str(password), "--p12-legacy")
    files = _issue(alpha, tmp_path / "out", *more, profile="user", name="eve@alpha.example")["files"]
    assert "password" not in files
    shown = openssl("pkcs12", "-info", "-in", files["p12"], "-passin", "pass:correct horse", "-nodes")
    assert shown.returncode == 0
    assert b"3-KeyTripleDES" in shown.stderr


def test_request_is_certified_without_key_or_bundle(alpha: Admit, tmp_path: Path) -> None:
    request = tmp_path / "laptop.csr"
    command = "openssl req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=x -keyout /dev/null -out"
    subprocess.run([*command.split(), request], check=True, capture_output=True)
    files = _issue(alpha, tmp_path / "out", "--csr", str(request))["files"]
    assert set(files) == {"cert", "chain", "ca"}


def test_server_certificate_keeps_its_key_here(alpha: Admit, tmp_path: Path) -> None:
    issued = _issue(alpha, tmp_path / "out", profile="server", name="radius.alpha.example")
    assert set(issued["files"]) == {"cert", "chain", "ca"}
    assert issued["profile"] == "eap-server"
    files = {kind: Path(path) for kind, path in issued["files"].items()}
    assert verify("sslserver", files["ca"], files["chain"], files["cert"]).returncode == 0


def test_suspend_reinstate_and_revoke(alpha: Admit, tmp_path: Path) -> None:
    serial = _issue(alpha, tmp_path)["serial"]
    assert alpha.json("cert", "suspend", serial, "-t", "alpha")["status"] == "suspended"
    assert [row["serial"] for row in alpha.json("cert", "list", "-t", "alpha", "--status", "suspended")] == [serial]
    assert alpha.json("cert", "reinstate", serial, "-t", "alpha")["status"] == "valid"
    revoked = alpha.json("cert", "revoke", serial, "-t", "alpha", "--reason", "keyCompromise")
    assert (revoked["status"], revoked["revocation_reason"]) == ("revoked", "keyCompromise")
    again = alpha.run("cert", "reinstate", serial, "-t", "alpha")
    assert again.exit_code == 1
    assert "revoked for good. Issue a new one." in again.stderr
    # The tenant's server certificate is the other one.
    assert {row["profile"] for row in alpha.json("cert", "list", "-t", "alpha")} == {"eap-server", "eap-client-device"}


def test_changes_are_audited_with_the_person(alpha: Admit, tmp_path: Path, app_engine: Engine) -> None:
    serial = _issue(alpha, tmp_path)["serial"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.target == serial)).one()
    assert entry.action == "certificate.issue"
    assert entry.actor.startswith("cli:")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--san", "host.example"], "must begin with one of dns:, email:, uri:, upn:"),
        (["--san", "email:eve@alpha.example"], "profile eap-client-device allows these kinds: dns, uri"),
        (["--csr", "/dev/null"], "not a readable PKCS#10 request"),
        (["--name", "x" * 65], "at most 64 are allowed"),
        (["--name", ""], "is empty"),
        (["--tenant", "nobody"], "There is no tenant 'nobody'"),
        (["--out", "/proc/nowhere"], "The folder cannot be made"),
        (["--profile", "server", "--name", "not a name"], "not a host name"),
        (["--profile", "server", "--p12-legacy"], "not handed out here"),
    ],
)
def test_bad_request_is_refused_in_one_sentence_and_issues_nothing(
    alpha: Admit, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    basic = ["-t", "alpha", "--profile", "device", "--name", "laptop", "--out", str(tmp_path / "out")]
    result = alpha.run("cert", "issue", *basic, *arguments)
    assert result.exit_code in (1, 2)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert len(alpha.json("cert", "list", "-t", "alpha")) == 1
    assert not (tmp_path / "out").exists()


def test_short_password_is_refused_before_anything_is_issued(alpha: Admit, tmp_path: Path) -> None:
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
    assert "There is already" in result.stderr
    assert key.read_bytes() == before


def test_name_of_a_path_stays_in_the_folder(alpha: Admit, tmp_path: Path) -> None:
    files = _issue(alpha, tmp_path / "out", name="../../etc/x")["files"]
    assert {Path(path).parent for path in files.values()} == {tmp_path / "out"}


def test_authorities_are_listed_shown_and_exported(alpha: Admit, tmp_path: Path) -> None:
    listed = alpha.json("ca", "list", "-t", "alpha")
    assert [row["kind"] for row in listed] == ["root", "issuing"]
    root = alpha.json("ca", "show", "-t", "alpha")
    assert root["id"] == listed[0]["id"]
    assert alpha.json("ca", "show", listed[1]["id"], "-t", "alpha")["issuer"] == root["id"]
    exported = alpha.run("ca", "export", "-t", "alpha")
    assert exported.exit_code == 0
    alpha.json("ca", "export", "issuing", "-t", "alpha", "--out", str(tmp_path / "issuing.pem"))
    (tmp_path / "root.pem").write_text(exported.stdout)
    checked = openssl("verify", "-CAfile", str(tmp_path / "root.pem"), str(tmp_path / "issuing.pem"))
    assert checked.returncode == 0, checked.stderr
    fingerprint = openssl("x509", "-noout", "-fingerprint", "-sha256", data=exported.stdout.encode()).stdout.decode()
    assert fingerprint.strip().partition("=")[2].lower() == root["sha256"]
    assert json.loads(alpha.run("ca", "export", "-t", "alpha", "--json").stdout)["pem"] == exported.stdout


def test_unknown_serial_and_authority_are_refused(alpha: Admit) -> None:
    for arguments, complaint in (
        (("cert", "show", "0a"), "There is no certificate 0a"),
        (("cert", "revoke", "hello"), "is no serial number"),
        (("ca", "show", "external"), "There is no certificate authority 'external'"),
    ):
        result = alpha.run(*arguments, "-t", "alpha")
        assert result.exit_code == 2
        assert complaint in result.stderr
