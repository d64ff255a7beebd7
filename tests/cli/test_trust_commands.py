import json
from pathlib import Path

import pytest

from nac.clock import utc_now
from tests.certificates.uploads import authority, pem
from tests.cli.conftest import Admit

NOW = utc_now()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    root = authority("Corp Root", NOW)
    made = []
    for name, issuer in (("root", root), ("issuing", authority("Corp Issuing", NOW, by=root))):
        path = tmp_path / f"{name}.pem"
        path.write_bytes(pem(issuer))
        made.append(str(path))
    return made[0], made[1]


def test_imported_authorities_are_listed_shown_and_removed(alpha: Admit, files: tuple[str, str]) -> None:
    imported = alpha.json("ca", "import", "-t", "alpha", *files, "--crl-url", "http://crl.example/1")
    assert [(row["name"], row["kind"], row["revocations"]) for row in imported] == [
        ("Corp Root", "external", "no list"),
        ("Corp Issuing", "external", "no list"),
    ]
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 4
    shown = alpha.json("ca", "show", imported[1]["id"], "-t", "alpha")
    assert (shown["signs_here"], shown["key_store"]) == (False, None)
    assert (shown["crl_url"], shown["crl_this_update"], shown["issuer"]) == (
        "http://crl.example/1",
        None,
        imported[0]["id"],
    )
    changed = alpha.json("ca", "set", imported[1]["id"], "-t", "alpha", "--ocsp-url", "http://ocsp.example/")
    assert changed["id"] == imported[1]["id"]
    for verb in (("remove",), ("set", "--crl-url", "http://crl.example/2")):
        own = alpha.run("ca", *verb, "root", "-t", "alpha")
        assert own.exit_code == 2
        assert "Admit made this authority" in own.stderr
    gone = alpha.json("ca", "remove", imported[0]["id"], "-t", "alpha")
    assert gone == {"removed": [row["id"] for row in imported]}
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 2


def test_every_mistake_of_an_upload_is_listed(alpha: Admit, files: tuple[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    alpha.run("ca", "export", "issuing", "-t", "alpha", "--out", str(own))
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    done = alpha.run("ca", "import", "-t", "alpha", files[1], str(own), str(nothing), "--json")
    assert done.exit_code == 2
    places = [mistake["place"].partition(",")[0] for mistake in json.loads(done.stdout)["mistakes"]]
    assert places == ["nothing", "issuing.pem", "own.pem", "own.pem"]
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 2


def test_all_of_a_user_and_an_authority_are_revoked(alpha: Admit, tmp_path: Path) -> None:
    issue = ("cert", "issue", "-t", "alpha", "--profile", "device", "--name", "x", "--out", str(tmp_path))
    serial = alpha.json(*issue)["serial"]
    done = alpha.json("ca", "revoke", "issuing", "-t", "alpha", "--yes", "--reason", "cACompromise")
    assert (done["authorities"], done["disconnects"]) == (1, 0)
    assert done["certificates"] >= 2
    assert alpha.json("cert", "show", serial, "-t", "alpha")["revocation_reason"] == "cACompromise"
    refused = alpha.run("cert", "revoke", serial, "-t", "alpha", "--all-of-user", "anna")
    assert refused.exit_code == 2
    assert "Say which" in refused.stderr
    assert "no user" in alpha.run("cert", "revoke", "-t", "alpha", "--all-of-user", "nobody").stderr.lower()


def test_hard_failure_of_status_is_a_setting_of_the_tenant(alpha: Admit) -> None:
    assert alpha.json("tenant", "set", "alpha", "--status-failure", "hard")["status_failure"] == "hard"
