"""`./admit enrol profile`, which writes the files of a supplicant, and `./admit scep`."""

import plistlib
from pathlib import Path

import pytest
from cryptography import x509

from tests.cli.conftest import Admit

OF = ("-t", "alpha")


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
    out = tmp_path / "out"
    more = ("--form", form, "--ssid", "Office", "--server-name", "radius2.alpha.example", "--out", str(out))
    row = alpha.json("enrol", "profile", *OF, *more)
    assert set(row["files"]) == names == {path.name for path in out.iterdir()}
    assert row["server_names"] == ["radius.alpha.admit.example", "radius2.alpha.example"]
    if form == "apple":
        assert plistlib.loads((out / "admit.mobileconfig").read_bytes())["PayloadDisplayName"] == "Office"
    elif form == "wpa_supplicant":
        exported = alpha.run("ca", "export", *OF).stdout.encode()
        (root,) = x509.load_pem_x509_certificates((out / "ca.pem").read_bytes())
        assert root == x509.load_pem_x509_certificate(exported)
    again = alpha.run("enrol", "profile", *OF, *more)
    assert (again.exit_code, "already contains" in again.stderr) == (1, True)


def test_scep_webhook_is_set_shown_and_deleted(alpha: Admit) -> None:
    before = alpha.json("scep", "show", *OF)
    assert (before["url"].endswith("/scep/alpha"), before["webhook"]) == (True, None)
    url = "https://intune.corp.example/scep"
    made = alpha.json("scep", "webhook", *OF, "--url", url, "--network", "10.1.0.0/16", "--timeout", "2")
    assert (made["url"], made["networks"], made["timeout_seconds"]) == (url, ["10.1.0.0/16"], 2.0)
    shown = alpha.json("scep", "webhook", *OF)
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    # The registration authority is created once.
    assert alpha.json("scep", "show", *OF) == before | {"webhook": url}
    listed = {row["serial"]: row["profile"] for row in alpha.json("cert", "list", *OF)}
    assert listed[before["ra_serial"]] == "scep-ra"
    assert alpha.json("scep", "webhook", *OF, "--remove") == {"removed": "webhook"}
    again = alpha.run("scep", "webhook", *OF, "--remove")
    assert (again.exit_code, "no SCEP webhook" in again.output) == (2, True)
