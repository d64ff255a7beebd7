import plistlib
from pathlib import Path

import pytest
from cryptography import x509

from tests.cli.conftest import Admit


def test_secret_is_shown_once_then_revoked(alpha: Admit) -> None:
    made = alpha.json("enrol", "secret", "-t", "alpha", "--id", "kiosk", "--name", "kiosk-1", "--uses", "3")
    assert made["url"] == "https://127.0.0.1:8462/.well-known/est/alpha"
    assert (made["user"], made["most_uses"], made["status"]) == ("kiosk", 3, "open")
    (listed,) = alpha.json("enrol", "list", "-t", "alpha")
    assert listed == {name: value for name, value in made.items() if name not in ("url", "user", "secret")}
    assert made["secret"] not in alpha.run("enrol", "list", "-t", "alpha").output
    assert alpha.json("enrol", "revoke", "kiosk", "-t", "alpha")["status"] == "revoked"


def test_scep_challenge_is_one_word(alpha: Admit) -> None:
    made = alpha.json("enrol", "secret", "-t", "alpha", "--kind", "scep", "--profile", "user", "--name", "eve")
    assert made["url"] == "http://127.0.0.1:8461/scep/alpha"
    assert made["challenge"].startswith(made["id"])
    assert made["profile"] == "eap-client-user"


def test_link_has_its_secret_only_in_the_path(alpha: Admit) -> None:
    made = alpha.json("enrol", "link", "-t", "alpha", "--name", "Eve's phone", "--ssid", "Office", "--life", "2h")
    assert made["url"].startswith(f"http://127.0.0.1:8461/enrol/{made['id']}-")
    assert (made["kind"], made["common_name"], made["ssid"]) == ("link", "Eve's phone", "Office")


def test_user_and_endpoint_set_the_names(alpha: Admit) -> None:
    alpha.json("endpoint", "add", "00:00:5e:00:53:01", "-t", "alpha")
    made = alpha.json("enrol", "secret", "-t", "alpha", "--endpoint", "00-00-5E-00-53-01")
    assert made["common_name"] == "00005e005301"
    added = alpha.run("user", "add", "eve", "-t", "alpha", "--password-file", "-", text="correct horse battery\n")
    assert added.exit_code == 0, added.output
    made = alpha.json("enrol", "link", "-t", "alpha", "--profile", "user", "--user", "eve")
    assert made["common_name"] == "eve"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("link",), "A link needs a name"),
        (("link", "--name", "x", "--san", "email:a@b.example"), "allows these kinds: dns, uri"),
        (("link", "--name", "x" * 65), "at most 64 are allowed"),
        (("link", "--name", "x", "--life", "soon"), "is not a duration"),
        (("link", "--name", "x", "--life", "400d"), "at most 365 days"),
        (("secret", "--uses", "0"), "Invalid number of uses: 0"),
        (("secret", "--id", "Not A Slug", "--any-name"), "Invalid slug"),
        (("secret", "--user", "nobody"), "User 'nobody' does not exist"),
        (("revoke", "nothing"), "Unknown enrolment secret 'nothing'"),
        (("profile", "--form", "apple", "--ssid", "x" * 33, "--out", "/nonexistent/x"), "Invalid SSID"),
        (("profile", "--form", "wpa_supplicant", "--device-folder", "a b", "--out", "/nonexistent/x"), "absolute path"),
    ],
)
def test_invalid_enrolment_is_rejected(alpha: Admit, arguments: tuple[str, ...], complaint: str) -> None:
    result = alpha.run("enrol", *arguments, "-t", "alpha")
    assert result.exit_code in (1, 2)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert alpha.json("enrol", "list", "-t", "alpha") == []


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


def test_renewal_with_the_same_key_is_optional(alpha: Admit) -> None:
    assert alpha.json("enrol", "renewal", "-t", "alpha", "--same-key")["renewal_keeps_key"] is True
    assert alpha.json("enrol", "renewal", "-t", "alpha", "--new-key")["renewal_keeps_key"] is False
