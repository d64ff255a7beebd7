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
    assert "permanently revoked. Issue a new one." in again.stderr
    # The tenant's server certificate is the other one.
    assert {row["profile"] for row in alpha.json("cert", "list", "-t", "alpha")} == {"eap-server", "eap-client-device"}


def test_endpoint_or_user_certificates_are_revoked_together(alpha: Admit, tmp_path: Path) -> None:
    alpha.json("endpoint", "add", "00:11:22:33:44:55", "-t", "alpha")
    added = alpha.run("user", "add", "anna", "-t", "alpha", text="correct horse\ncorrect horse\n")
    assert added.exit_code == 0, added.output
    device = _issue(alpha, tmp_path, "--endpoint", "0011.2233.4455", name="laptop")["serial"]
    person = _issue(alpha, tmp_path, "--user", "anna", profile="user", name="anna")["serial"]
    nobodys = _issue(alpha, tmp_path, name="other")["serial"]

    def shown(serial: str) -> tuple[str | None, ...]:
        row = alpha.json("cert", "show", serial, "-t", "alpha")
        return row["endpoint"], row["user"], row["status"]

    assert shown(device) == ("00:11:22:33:44:55", None, "valid")
    for verb, status in (("suspend", "suspended"), ("reinstate", "valid")):
        assert alpha.json("cert", verb, "-t", "alpha", "--all-of-endpoint", "001122334455")["certificates"] == 1
        assert [shown(serial)[-1] for serial in (device, person, nobodys)] == [status, "valid", "valid"]
        for arguments in ((), (device, "--all-of-user", "anna")):
            assert "No certificate selected." in alpha.run("cert", verb, *arguments, "-t", "alpha").stderr
    assert alpha.json("cert", "revoke", "-t", "alpha", "--all-of-endpoint", "001122334455")["certificates"] == 1
    assert alpha.json("cert", "revoke", "-t", "alpha", "--all-of-user", "anna")["certificates"] == 1
    assert shown(device) == ("00:11:22:33:44:55", None, "revoked")
    assert shown(person) == (None, "anna", "revoked")
    assert shown(nobodys) == (None, None, "valid")


@pytest.mark.parametrize(
    ("noun", "who", "option"),
    [("endpoint", "00:11:22:33:44:55", "--all-of-endpoint"), ("user", "anna", "--all-of-user")],
)
def test_holder_of_valid_certificates_is_not_deleted(
    alpha: Admit, tmp_path: Path, noun: str, who: str, option: str
) -> None:
    alpha.run(noun, "add", who, "-t", "alpha", text="correct horse\ncorrect horse\n")
    _issue(alpha, tmp_path, f"--{noun}", who)
    refused = alpha.run(noun, "remove", who, "-t", "alpha")
    assert refused.exit_code == 1
    assert f"certificates first: ./admit cert revoke {option} {who}" in refused.stderr
    alpha.json("cert", "revoke", "-t", "alpha", option, who)
    assert alpha.json(noun, "remove", who, "-t", "alpha") == {"removed": who}


def test_server_certificate_waits_for_its_start_day(alpha: Admit, tmp_path: Path) -> None:
    more = ("--present-from", "2026-12-24T06:00:00")
    serial = _issue(alpha, tmp_path, *more, profile="server", name="radius.alpha.example")["serial"]
    shown = alpha.json("cert", "show", serial, "-t", "alpha")
    assert shown["present_from"] == "2026-12-24T06:00:00+00:00"


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
        (["--profile", "server", "--p12-legacy"], "stays in Admit"),
        (["--profile", "server", "--user", "anna"], "belongs to no endpoint or user"),
        (["--profile", "radsec-server", "--endpoint", "001122334455"], "belongs to no endpoint or user"),
        (["--profile", "radsec-server", "--name", "not a name"], "not a host name"),
        (["--profile", "radsec-server", "--present-from", "2999-01-01"], "Only valid for server certificates"),
        (
            ["--profile", "server", "--name", "radius.example", "--present-from", "2999-01-01"],
            "expires before the cell",
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


def test_unknown_serial_and_authority_are_rejected(alpha: Admit) -> None:
    for arguments, complaint in (
        (("cert", "show", "0a"), "Certificate 0a does not exist"),
        (("cert", "revoke", "hello"), "Invalid serial number"),
        (("ca", "show", "external"), "Unknown certificate authority 'external'"),
    ):
        result = alpha.run(*arguments, "-t", "alpha")
        assert result.exit_code == 2
        assert complaint in result.stderr


def test_rollover_creates_an_issuing_authority_and_a_root(alpha: Admit, tmp_path: Path) -> None:
    old = {row["kind"]: row["id"] for row in alpha.json("ca", "list", "-t", "alpha")}
    done = alpha.json("ca", "rollover", "-t", "alpha")
    assert (done["root"], done["root_is_new"], done["retired"]) == (old["root"], False, [old["issuing"]])
    assert (done["key_store"], done["signs_here"]) == ("sealed", True)
    again = alpha.json("ca", "rollover", "-t", "alpha", "--root")
    assert again["root"] != old["root"]
    assert set(again["retired"]) == {old["root"], done["id"]}
    assert alpha.json("cert", "show", again["server_certificate"], "-t", "alpha")["authority"] == again["id"]
    statuses = [(row["kind"], row["status"]) for row in alpha.json("ca", "list", "-t", "alpha")]
    assert sorted(statuses) == [
        *(("issuing", "active"), ("issuing", "retired"), ("issuing", "retired")),
        *(("root", "active"), ("root", "retired")),
    ]
    files = _issue(alpha, tmp_path / "out")["files"]
    assert verify("sslclient", *(Path(files[kind]) for kind in ("ca", "chain", "cert"))).returncode == 0


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


def test_profile_is_set_within_its_limits(alpha: Admit, tmp_path: Path) -> None:
    chosen = alpha.json("cert-profile", "set", "eap-client-device", "-t", "alpha", "--validity-days", "30")
    assert (chosen["validity_days"], chosen["key"]) == (30, "ecdsa-p256")
    refused = alpha.run("cert-profile", "set", "eap-server", "-t", "alpha", "--validity-days", "900")
    assert refused.exit_code != 0
    assert "900 must be from 1 to 824" in refused.output
    listed = {row["name"]: row for row in alpha.json("cert-profile", "list", "-t", "alpha")}
    assert (listed["eap-client-device"]["validity_days"], listed["eap-server"]["validity_days"]) == (30, 820)


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


def test_certificates_are_filtered_and_paged(alpha: Admit, tmp_path: Path) -> None:
    serials = sorted(_issue(alpha, tmp_path / "out", name=f"laptop {number}")["serial"] for number in range(3))
    first = alpha.json("cert", "list", "-t", "alpha", "--name", "laptop", "--limit", "2")
    rest = alpha.json("cert", "list", "-t", "alpha", "--name", "laptop", "--after", first[-1]["serial"])
    assert [row["serial"] for row in first + rest] == serials
    assert alpha.json("cert", "list", "-t", "alpha", "--name", "lap%") == []
    assert len(alpha.json("cert", "list", "-t", "alpha", "--profile", "eap-server")) == 1


def test_key_store_is_used_for_new_authorities(alpha: Admit) -> None:
    assert alpha.json("ca", "key-store", "pkcs11", "-t", "alpha")["key_store"] == "pkcs11"
    refused = alpha.run("ca", "rollover", "-t", "alpha")
    assert refused.exit_code != 0
    assert "ADMIT_PKCS11_MODULE" in refused.output
    alpha.json("ca", "key-store", "platform", "-t", "alpha")
    assert alpha.json("ca", "rollover", "-t", "alpha")["key_store"] == "sealed"


def test_server_certificate_is_activated_now(alpha: Admit, tmp_path: Path) -> None:
    (before,) = alpha.json("cert", "list", "-t", "alpha", "--profile", "eap-server")
    more = ("--profile", "server", "--name", "radius.alpha.example", "--out", str(tmp_path))
    issued = alpha.run("cert", "issue", "-t", "alpha", *more, "--json")
    told = f"Note: devices that expect {before['name']} reject this certificate"
    assert told in issued.stderr
    assert f"./admit cert present {before['serial']}" in issued.stderr
    serial = json.loads(issued.stdout)["serial"]
    assert told not in alpha.run("cert", "present", serial, "-t", "alpha").stderr
    assert alpha.json("cert", "present", before["serial"], "-t", "alpha")["present_from"]


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
    assert "key of alpha Root CA is not stored here" in alpha.run("ca", "rollover", "-t", "alpha").output
    refused = alpha.run("ca", "rollover", "-t", "alpha", "--root")
    assert (
        refused.exit_code,
        "set the day: ./admit ca import-root-key FILE, --present-from DATE" in refused.stderr,
    ) == (1, True)
    bring = ("ca", "import-root-key", "-t", "alpha", str(out), "--passphrase-file")
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
    assert "not the key of alpha Root CA" in foreign.output
    assert alpha.json(*bring, str(passphrase))["signs_here"] is True
    assert alpha.json("ca", "rollover", "-t", "alpha")["status"] == "active"
