"""`./admit identity-source add` and `set`: settings from files and options."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Admit
from tests.feeds.certificates import self_signed

OF_ALPHA = ("-t", "alpha")
SECRET = "secret of the service"


@pytest.fixture
def corp(alpha: Admit, tmp_path: Path) -> Admit:
    """Alpha with an identity source."""
    settings = {"urls": ["ldaps://ldap.example"], "bind_dn": "cn=admit,dc=corp", "base_dn": "ou=people,dc=corp"}
    files = {"--file": json.dumps(settings), "--ca-file": self_signed("ldap.example").certificate}
    options = []
    for option, text in (files | {"--secret-file": f"{SECRET}\n"}).items():
        path = tmp_path / option.strip("-")
        path.write_text(text)
        options += [option, str(path)]
    added = alpha.json("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *options)
    assert (added["name"], added["secret"], added["enabled"]) == ("corp", "set", True)
    return alpha


def test_source_is_listed_updated_and_deleted(corp: Admit):
    changed = corp.json("identity-source", "set", "corp", *OF_ALPHA, "--set", "time_limit_seconds=5", "--disable")
    assert (changed["settings"]["time_limit_seconds"], changed["enabled"]) == (5.0, False)
    assert SECRET not in json.dumps(corp.json("identity-source", "list", *OF_ALPHA))
    back = corp.json("identity-source", "set", "corp", *OF_ALPHA, "--set", "time_limit_seconds=null", "--enable")
    assert ("time_limit_seconds" in back["settings"], back["enabled"]) == (False, True)
    corp.json("identity-source", "remove", "corp", *OF_ALPHA)
    assert corp.json("identity-source", "list", *OF_ALPHA) == []


def test_secret_is_needed_again_for_a_new_address(corp: Admit, tmp_path: Path):
    elsewhere = ("identity-source", "set", "corp", *OF_ALPHA, "--set", 'urls=["ldaps://mallory.example"]')
    refused = corp.run(*elsewhere)
    assert (refused.exit_code, "Enter the secret again" in refused.stderr) == (2, True)
    assert "mallory" not in json.dumps(corp.json("identity-source", "list", *OF_ALPHA))
    changed = corp.json(*elsewhere, "--secret-file", str(tmp_path / "secret-file"))
    assert changed["settings"]["urls"] == ["ldaps://mallory.example"]


def test_every_settings_error_is_listed_and_nothing_stored(alpha: Admit):
    settings = ("urls=ldap://plain.example", "user_filter=(uid=x", "connections=0", "a=1")
    wrong = [word for setting in settings for word in ("--set", setting)]
    result = alpha.run("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *wrong)
    assert result.exit_code == 2
    for place in ("urls", "user_filter", "connections", "base_dn", "a:"):
        assert place in result.stderr
    assert alpha.json("identity-source", "list", *OF_ALPHA) == []


def test_non_text_file_is_rejected(alpha: Admit, tmp_path: Path):
    (tmp_path / "latin-1").write_bytes("name,password\nJürgen,correct horse\n".encode("latin-1"))
    for command in (
        ("user", "add", "ann", *OF_ALPHA, "--password-file"),
        ("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", "--ca-file"),
        ("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", "--secret-file"),
    ):
        result = alpha.run(*command, str(tmp_path / "latin-1"))
        assert result.exit_code == 2
        assert "latin-1: The file is not UTF-8 text. Save the file as UTF-8." in result.stderr
