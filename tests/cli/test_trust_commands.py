import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from cli.commands._ca_rows import freshness
from nac.kit.clock import utc_now
from nac.models import StatusSource
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


def test_external_authorities_are_listed_shown_and_deleted(alpha: Admit, files: tuple[str, str]) -> None:
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
        assert "Admit created this authority" in own.stderr
    gone = alpha.json("ca", "remove", imported[0]["id"], "-t", "alpha")
    assert gone == {"removed": [row["id"] for row in imported]}
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 2


def test_every_upload_error_is_listed(alpha: Admit, files: tuple[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    alpha.run("ca", "export", "issuing", "-t", "alpha", "--out", str(own))
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    done = alpha.run("ca", "import", "-t", "alpha", files[1], str(own), str(nothing), "--json")
    assert done.exit_code == 2
    places = [mistake["place"].partition(",")[0] for mistake in json.loads(done.stdout)["mistakes"]]
    assert places == ["nothing", "issuing.pem", "own.pem", "own.pem"]
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 2


def test_user_and_authority_certificates_are_revoked(alpha: Admit, tmp_path: Path) -> None:
    issue = ("cert", "issue", "-t", "alpha", "--profile", "device", "--name", "x", "--out", str(tmp_path))
    serial = alpha.json(*issue)["serial"]
    done = alpha.json("ca", "revoke", "issuing", "-t", "alpha", "--yes", "--reason", "cACompromise")
    assert (done["authorities"], done["disconnects"]) == (1, 0)
    assert done["certificates"] >= 2
    assert alpha.json("cert", "show", serial, "-t", "alpha")["revocation_reason"] == "cACompromise"
    refused = alpha.run("cert", "revoke", serial, "-t", "alpha", "--all-of-user", "anna")
    assert refused.exit_code == 2
    assert "No certificate selected" in refused.stderr
    assert (
        "user 'nobody' does not exist"
        in alpha.run("cert", "revoke", "-t", "alpha", "--all-of-user", "nobody").stderr.lower()
    )


@pytest.mark.parametrize(
    ("hours_old", "hours_left", "failure", "told"),
    [
        (None, None, "", "no list"),
        (None, None, "no answer", "no list, failed"),
        (5, 2, "", "5 hours old"),
        (5, 2, "no answer", "5 hours old, failed"),
        (72, -1, "no answer", "3 days old, overdue, failed"),
    ],
)
def test_list_shows_the_crl_age_and_fetch_errors(
    hours_old: int | None, hours_left: int | None, failure: str, told: str
) -> None:
    now = utc_now()
    at = lambda hours: None if hours is None else now + timedelta(hours=hours)  # noqa: E731
    source = StatusSource(
        crl_this_update=at(hours_old and -hours_old), crl_next_update=at(hours_left), crl_failure=failure
    )
    assert freshness(source) == told


@pytest.mark.parametrize(("answer", "complaint"), [("", "confirmation required"), ("n\n", "Cancelled")])
def test_revoking_an_authority_needs_confirmation(alpha: Admit, answer: str, complaint: str) -> None:
    refused = alpha.run("ca", "revoke", "issuing", "-t", "alpha", "--json", text=answer)
    assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (1, "refused")
    assert "Revoke alpha Issuing CA (issuing) and every" in refused.stderr
    assert complaint in refused.stderr
    assert alpha.json("ca", "show", "issuing", "-t", "alpha")["status"] == "active"
    assert alpha.run("ca", "revoke", str(UUID(int=0)), "-t", "alpha").exit_code == 2


def test_status_hard_fail_is_a_tenant_setting(alpha: Admit) -> None:
    assert alpha.json("tenant", "set", "alpha", "--status-failure", "hard")["status_failure"] == "hard"
