import plistlib
from pathlib import Path

import pytest
from cryptography import x509

from tests.cli.conftest import Admit


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("apple", {"admit.mobileconfig"}),
        ("windows", {"admit.xml", "README.txt", "root-1.cer"}),
        ("wpa_supplicant", {"wpa_supplicant.conf", "ca.pem"}),
        ("networkmanager", {"admit.nmconnection", "ca.pem"}),
        ("android", {"README.txt", "ca.pem"}),
    ],
)
def test_profile_is_exported_for_each_system(alpha: Admit, tmp_path: Path, form: str, names: set[str]) -> None:
    more = (
        "--form",
        form,
        "--ssid",
        "Office",
        "--server-name",
        "radius2.alpha.example",
        "--out",
        str(tmp_path / "out"),
    )
    row = alpha.json("enrol", "profile", "-t", "alpha", *more)
    assert set(row["files"]) == names == {path.name for path in (tmp_path / "out").iterdir()}
    assert row["server_names"] == ["radius.alpha.admit.example", "radius2.alpha.example"]
    if form == "apple":
        assert plistlib.loads(Path(row["files"]["admit.mobileconfig"]).read_bytes())["PayloadDisplayName"] == "Office"
    elif form == "wpa_supplicant":
        exported = alpha.run("ca", "export", "-t", "alpha").stdout.encode()
        (root,) = x509.load_pem_x509_certificates(Path(row["files"]["ca.pem"]).read_bytes())
        assert root == x509.load_pem_x509_certificate(exported)
    again = alpha.run("enrol", "profile", "-t", "alpha", *more)
    assert again.exit_code == 1
    assert "already contains" in again.stderr
