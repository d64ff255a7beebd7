import stat
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from api.enrolment import server_certificate
from api.enrolment.server_certificate import RENEWAL_LEAD, CertificateMaintainer, authority_path, ensure_certificate
from cli import diagnosis
from nac.kit.settings import Settings, load_settings
from pki.bundles import certificates_pem
from pki.names import read_sans


def settings_of(folder: Path, **more: str) -> Settings:
    return load_settings({"ADMIT_VAR_DIR": str(folder), **more})


def keys(folder: Path) -> Path:
    made = folder / "keys" / "enrolment"
    made.mkdir(parents=True, exist_ok=True)
    return made


def shown(settings: Settings) -> x509.Certificate:
    return x509.load_pem_x509_certificate(settings.enrolment_certificate_file.read_bytes())


def test_openssl_verifies_the_certificate_for_each_address(tmp_path):
    settings = settings_of(tmp_path, ADMIT_ENROLMENT_URL="https://est.alpha.example")
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    names = {str(item) for item in read_sans(shown(settings))}
    assert names == {"dns:est.alpha.example", "ip:127.0.0.1", "dns:localhost"}
    command = ["openssl", "verify", "-purpose", "sslserver", "-verify_hostname", "est.alpha.example"]
    command += ["-CAfile", authority_path(keys(tmp_path)), settings.enrolment_certificate_file]
    subprocess.run(command, check=True, capture_output=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in keys(tmp_path).iterdir()}
    assert modes == {
        "enrolment-ca.key": 0o600,
        "enrolment-ca.pem": 0o644,
        "enrolment.key": 0o600,
        "enrolment.pem": 0o644,
    }


def test_certificate_is_kept_until_address_key_or_expiry_change(tmp_path, monkeypatch):
    settings = settings_of(tmp_path)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    assert not ensure_certificate(keys(tmp_path), settings, owner=None)
    authority = authority_path(keys(tmp_path)).read_bytes()
    assert ensure_certificate(keys(tmp_path), settings_of(tmp_path, ADMIT_LISTEN_ADDRESS="::1"), owner=None)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    settings.enrolment_key_file.write_bytes((keys(tmp_path) / "enrolment-ca.key").read_bytes())
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    end = shown(settings).not_valid_after_utc
    monkeypatch.setattr(server_certificate, "utc_now", lambda: end - server_certificate.RENEWAL_LEAD)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    assert shown(settings).not_valid_after_utc > end
    assert authority_path(keys(tmp_path)).read_bytes() == authority


def test_files_of_an_administrator_are_not_changed(tmp_path):
    elsewhere = settings_of(tmp_path, ADMIT_ENROLMENT_CERTIFICATE_FILE="/etc/ssl/nac.pem")
    assert not ensure_certificate(keys(tmp_path), elsewhere, owner=None)
    assert list(keys(tmp_path).iterdir()) == []


def at(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    for module in (server_certificate, diagnosis):
        monkeypatch.setattr(module, "utc_now", lambda: moment)


def test_served_certificate_is_checked_hourly_and_renewed(tmp_path, monkeypatch, caplog):
    settings, seconds = settings_of(tmp_path), 0.0
    ensure_certificate(keys(tmp_path), settings, owner=None)
    caretaker = CertificateMaintainer(settings, clock=lambda: seconds)
    first = shown(settings)
    caretaker.look()
    at(monkeypatch, first.not_valid_after_utc - RENEWAL_LEAD + timedelta(minutes=1))
    seconds += 3599
    caretaker.look()
    assert shown(settings) == first
    seconds += 1
    caretaker.look()
    assert shown(settings).not_valid_after_utc > first.not_valid_after_utc
    # The certificate is renewed in time, so no warning is logged.
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_certificate_of_an_administrator_is_warned_about(tmp_path, monkeypatch, caplog):
    ensure_certificate(keys(tmp_path), settings_of(tmp_path), owner=None)
    theirs = tmp_path / "theirs.pem"
    theirs.write_bytes(settings_of(tmp_path).enrolment_certificate_file.read_bytes())
    settings, seconds = settings_of(tmp_path, ADMIT_ENROLMENT_CERTIFICATE_FILE=str(theirs)), 0.0
    caretaker = CertificateMaintainer(settings, clock=lambda: seconds)
    end, told = shown(settings).not_valid_after_utc, []
    for hours in range(24 * 70, -24, -12):
        at(monkeypatch, end - timedelta(hours=hours))
        caplog.clear()
        caretaker.look()
        seconds += 3600
        told += [hours // 24 for record in caplog.records if "renew the certificate" in record.message]
    assert told == [60, 30, 14, 7, 1]
    assert theirs.read_bytes() == certificates_pem([shown(settings)])


def test_failed_renewal_or_read_is_logged_and_retried(tmp_path, caplog):
    settings, seconds = settings_of(tmp_path), 0.0
    caretaker = CertificateMaintainer(settings, clock=lambda: seconds)
    # The folder does not exist.
    caretaker.look()
    assert "cannot renew the server's certificate" in caplog.text
    assert "cannot read the server's certificate" in caplog.text
    keys(tmp_path)
    seconds += 3600
    caretaker.look()
    assert shown(settings)


@pytest.mark.parametrize(("days", "verdict"), [(31, "ok"), (28, "warn"), (0, "fail")])
def test_doctor_warns_of_a_near_expiry(tmp_path, monkeypatch, days, verdict):
    settings = settings_of(tmp_path)
    assert [found.verdict for found in diagnosis._enrolment_certificate(settings)] == ["fail"]
    ensure_certificate(keys(tmp_path), settings, owner=None)
    end = shown(settings).not_valid_after_utc
    at(monkeypatch, end - timedelta(days=days))
    (found,) = diagnosis._enrolment_certificate(settings)
    assert (found.verdict, f"{end:%Y-%m-%d}" in found.what) == (verdict, True)
