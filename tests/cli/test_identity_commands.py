"""Users and identity sources from the command line, against a real directory."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Admit, ServedApi
from tests.identities.slapd import BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, dn_of, group, person, tree
from tests.postgres import Database

OF_ALPHA = ("-t", "alpha")


@pytest.fixture(scope="module")
def slapd():
    with Slapd() as slapd:
        slapd.load(tree() + person("anna", "anna's password") + group("staff", dn_of("anna")))
        yield slapd


@pytest.fixture
def corp(alpha: Admit, slapd: Slapd, tmp_path: Path, database: Database, served_app: ServedApi) -> Admit:
    """Alpha with an identity source on loopback, to which the API connects."""
    served_app.configure(database, tmp_path, ADMIT_OUTBOUND_NETWORKS="127.0.0.0/8")
    (tmp_path / "ca.pem").write_text(slapd.ca_certificate)
    settings = {"urls": [slapd.ldaps], "bind_dn": SERVICE_DN, "base_dn": f"ou=people,{BASE}"}
    (tmp_path / "corp.json").write_text(json.dumps(settings))
    (tmp_path / "secret").write_text(SERVICE_PASSWORD + "\n")
    named = {"--file": "corp.json", "--ca-file": "ca.pem", "--secret-file": "secret"}
    files = [word for option, name in named.items() for word in (option, str(tmp_path / name))]
    added = alpha.json("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *files)
    assert (added["name"], added["secret"], added["enabled"]) == ("corp", "set", True)
    return alpha


def test_source_is_listed_updated_and_deleted(corp: Admit):
    changed = corp.json("identity-source", "set", "corp", *OF_ALPHA, "--set", "time_limit_seconds=5", "--disable")
    assert (changed["settings"]["time_limit_seconds"], changed["enabled"]) == (5.0, False)
    assert SERVICE_PASSWORD not in json.dumps(corp.json("identity-source", "list", *OF_ALPHA))
    back = corp.json("identity-source", "set", "corp", *OF_ALPHA, "--set", "time_limit_seconds=null", "--enable")
    assert "time_limit_seconds" not in back["settings"]
    corp.json("identity-source", "remove", "corp", *OF_ALPHA)
    assert corp.json("identity-source", "list", *OF_ALPHA) == []


def test_secret_is_needed_again_for_a_new_address(corp: Admit, tmp_path: Path):
    elsewhere = ("identity-source", "set", "corp", *OF_ALPHA, "--set", 'urls=["ldaps://mallory.example"]')
    refused = corp.run(*elsewhere)
    assert refused.exit_code == 2
    assert "Enter the secret again" in refused.stderr
    assert "mallory" not in json.dumps(corp.json("identity-source", "list", *OF_ALPHA))
    changed = corp.json(*elsewhere, "--secret-file", str(tmp_path / "secret"))
    assert changed["settings"]["urls"] == ["ldaps://mallory.example"]


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"])
def test_blocked_source_address_is_rejected_and_not_contacted(
    corp: Admit, served_app: ServedApi, database: Database, tmp_path: Path, host: str
):
    served_app.configure(database, tmp_path)
    settings = ("--set", f'urls=["ldaps://{host}"]', "--set", "base_dn=dc=corp")
    result = corp.run("identity-source", "add", "inner", *OF_ALPHA, "--kind", "ldap", *settings)
    assert result.exit_code == 2
    assert "Admit does not connect to this address. The platform's operator can allow this connection" in result.stderr
    assert [row["name"] for row in corp.json("identity-source", "list", *OF_ALPHA)] == ["corp"]
    asked = corp.run("identity-source", "test", "corp", *OF_ALPHA, "--user", "anna", text="anna's password\n")
    assert asked.exit_code == 1
    assert "127.0.0.1 is a loopback address; Admit does not connect to this address" in asked.stdout
    assert "ADMIT_OUTBOUND_NETWORKS" in asked.stdout


def test_every_settings_error_is_listed_and_nothing_stored(alpha: Admit):
    settings = ("urls=ldap://plain.example", "user_filter=(uid=x", "connections=0", "a=1")
    wrong = [word for setting in settings for word in ("--set", setting)]
    result = alpha.run("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *wrong)
    assert result.exit_code == 2
    for place in ("urls", "user_filter", "connections", "base_dn", "a:"):
        assert place in result.stderr
    assert alpha.json("identity-source", "list", *OF_ALPHA) == []


@pytest.mark.parametrize(
    "command",
    [
        ("user", "add", "ann", "--password-file"),
        ("identity-source", "add", "corp", "--kind", "ldap", "--ca-file"),
        ("identity-source", "add", "corp", "--kind", "ldap", "--secret-file"),
    ],
)
def test_non_text_file_is_rejected(alpha: Admit, tmp_path: Path, command: tuple[str, ...]):
    (tmp_path / "latin-1").write_bytes("name,password\nJürgen,correct horse\n".encode("latin-1"))
    result = alpha.run(*command[:2], *OF_ALPHA, *command[2:], str(tmp_path / "latin-1"))
    assert result.exit_code == 2
    assert "latin-1: The file is not UTF-8 text. Save the file as UTF-8." in result.stderr
