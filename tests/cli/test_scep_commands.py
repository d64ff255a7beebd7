from pathlib import Path

import pytest

from tests.cli.conftest import Admit


def test_mdm_settings_are_shown(alpha: Admit) -> None:
    shown = alpha.json("scep", "show", "-t", "alpha")
    assert shown["url"].endswith("/scep/alpha")
    assert shown["webhook"] is None
    # The registration authority is created once.
    assert alpha.json("scep", "show", "-t", "alpha") == shown
    listed = {row["serial"]: row["profile"] for row in alpha.json("cert", "list", "-t", "alpha")}
    assert listed[shown["ra_serial"]] == "scep-ra"


def test_webhook_is_set_shown_and_deleted(alpha: Admit) -> None:
    url = "https://intune.corp.example/scep"
    made = alpha.json("scep", "webhook", "-t", "alpha", "--url", url, "--network", "10.1.0.0/16", "--timeout", "2")
    assert (made["url"], made["networks"], made["timeout_seconds"]) == (url, ["10.1.0.0/16"], 2.0)
    shown = alpha.json("scep", "webhook", "-t", "alpha")
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert alpha.json("scep", "show", "-t", "alpha")["webhook"] == url
    assert alpha.json("scep", "webhook", "-t", "alpha", "--remove") == {"removed": "webhook"}
    again = alpha.run("scep", "webhook", "-t", "alpha", "--remove")
    assert again.exit_code == 2
    assert "no SCEP webhook" in again.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--url", "http://intune.corp.example/"), "https://host"),
        (("--url", "https://x.example/", "--network", "here", "--timeout", "60"), "--timeout"),
        (("--url", "https://x.example/", "--profile", "root"), "eap-client-device"),
    ],
)
def test_invalid_webhook_is_rejected(alpha: Admit, arguments: tuple[str, ...], told: str) -> None:
    result = alpha.run("scep", "webhook", "-t", "alpha", *arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "no SCEP webhook" in alpha.run("scep", "webhook", "-t", "alpha").output


def test_webhook_ca_certificate_is_read_from_a_file(alpha: Admit, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    result = alpha.run("scep", "webhook", "-t", "alpha", "--url", "https://x.example/", "--ca-file", str(file))
    assert result.exit_code == 2
    assert "ca_certificate" in result.output
