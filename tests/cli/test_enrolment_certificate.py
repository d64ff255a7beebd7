import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from cli import enrolment_certificate
from cli.enrolment_certificate import authority_file, ensure_certificate
from nac.settings import Settings, load_settings
from pki.names import sans_of


def settings_of(folder: Path, **more: str) -> Settings:
    return load_settings({"ADMIT_VAR_DIR": str(folder), **more})


def keys(folder: Path) -> Path:
    (folder / "keys").mkdir(exist_ok=True)
    return folder / "keys"


def shown(settings: Settings) -> x509.Certificate:
    return x509.load_pem_x509_certificate(settings.enrolment_certificate_file.read_bytes())


def test_certificate_names_what_is_reached_and_convinces_openssl(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, ADMIT_ENROLMENT_URL="https://est.alpha.example")
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    names = {str(item) for item in sans_of(shown(settings))}
    assert names == {"dns:est.alpha.example", "ip:127.0.0.1", "dns:localhost"}
    command = ["openssl", "verify", "-purpose", "sslserver", "-verify_hostname", "est.alpha.example"]
    subprocess.run(
        [*command, "-CAfile", authority_file(keys(tmp_path)), settings.enrolment_certificate_file],
        check=True,
        capture_output=True,
    )
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in keys(tmp_path).iterdir()}
    assert modes == {
        "enrolment-ca.key": 0o600,
        "enrolment-ca.pem": 0o644,
        "enrolment.key": 0o600,
        "enrolment.pem": 0o644,
    }


def test_good_certificate_stays_and_another_address_or_a_near_end_brings_a_new_one_of_the_same_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    assert not ensure_certificate(keys(tmp_path), settings, owner=None)
    authority = authority_file(keys(tmp_path)).read_bytes()
    assert ensure_certificate(keys(tmp_path), settings_of(tmp_path, ADMIT_LISTEN_ADDRESS="::1"), owner=None)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    end = shown(settings).not_valid_after_utc
    monkeypatch.setattr(enrolment_certificate, "utc_now", lambda: end - enrolment_certificate._RENEW_AHEAD)
    assert ensure_certificate(keys(tmp_path), settings, owner=None)
    assert shown(settings).not_valid_after_utc > end
    assert authority_file(keys(tmp_path)).read_bytes() == authority


def test_key_that_does_not_fit_is_replaced(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    ensure_certificate(keys(tmp_path), settings, owner=None)
    settings.enrolment_key_file.write_bytes((keys(tmp_path) / "enrolment-ca.key").read_bytes())
    assert ensure_certificate(keys(tmp_path), settings, owner=None)


def test_files_of_the_administrator_are_left_alone(tmp_path: Path) -> None:
    elsewhere = settings_of(tmp_path, ADMIT_ENROLMENT_CERTIFICATE_FILE="/etc/ssl/nac.pem")
    assert not ensure_certificate(keys(tmp_path), elsewhere, owner=None)
    assert list(keys(tmp_path).iterdir()) == []
