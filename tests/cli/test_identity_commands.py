"""Users and identity sources from the command line, against a real directory."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Admit
from tests.identities.slapd import BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, dn_of, group, person, tree

OF_ALPHA = ("-t", "alpha")


@pytest.fixture(scope="module")
def slapd():
    with Slapd() as slapd:
        slapd.load(tree() + person("anna", "anna's password") + group("staff", dn_of("anna")))
        yield slapd


@pytest.fixture
def corp(alpha: Admit, slapd: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admit:
    """Alpha with an identity source on loopback."""
    monkeypatch.setenv("ADMIT_OUTBOUND_NETWORKS", "127.0.0.0/8")
    (tmp_path / "ca.pem").write_text(slapd.ca_certificate)
    settings = {"urls": [slapd.ldaps], "bind_dn": SERVICE_DN, "base_dn": f"ou=people,{BASE}"}
    (tmp_path / "corp.json").write_text(json.dumps(settings))
    (tmp_path / "secret").write_text(SERVICE_PASSWORD + "\n")
    files = ("--file", str(tmp_path / "corp.json"), "--ca-file", str(tmp_path / "ca.pem"))
    added = alpha.json(
        "identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *files, "--secret-file", str(tmp_path / "secret")
    )
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
def test_blocked_source_address_is_rejected_and_not_contacted(corp: Admit, monkeypatch: pytest.MonkeyPatch, host: str):
    monkeypatch.delenv("ADMIT_OUTBOUND_NETWORKS")
    settings = ("--set", f'urls=["ldaps://{host}"]', "--set", "base_dn=dc=corp")
    result = corp.run("identity-source", "add", "inner", *OF_ALPHA, "--kind", "ldap", *settings)
    assert result.exit_code == 2
    assert "Admit does not connect to it. The platform's operator can allow it" in result.stderr
    assert [row["name"] for row in corp.json("identity-source", "list", *OF_ALPHA)] == ["corp"]
    asked = corp.run("identity-source", "test", "corp", *OF_ALPHA, "--user", "anna", text="anna's password\n")
    assert asked.exit_code == 1
    assert "127.0.0.1 is a loopback address; Admit does not connect to it" in asked.stdout
    assert "ADMIT_OUTBOUND_NETWORKS" in asked.stdout


def test_every_settings_error_is_listed_and_nothing_stored(alpha: Admit):
    wrong = (
        "--set",
        "urls=ldap://plain.example",
        "--set",
        "user_filter=(uid=x",
        "--set",
        "connections=0",
        "--set",
        "a=1",
    )
    result = alpha.run("identity-source", "add", "corp", *OF_ALPHA, "--kind", "ldap", *wrong)
    assert result.exit_code == 2
    for place in ("urls", "user_filter", "connections", "base_dn", "a:"):
        assert place in result.stderr
    assert alpha.json("identity-source", "list", *OF_ALPHA) == []


def test_test_prints_each_step_and_the_groups(corp: Admit):
    result = corp.run(
        "identity-source", "test", "corp", *OF_ALPHA, "--user", "anna", "--json", text="anna's password\n"
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout[result.stdout.index("{") :])
    assert (told["verified"], told["groups"]) == (True, ["staff"])
    steps = "\n".join(told["steps"])
    for step in ("connected to ldaps://", f"bound as {SERVICE_DN}", "entry: uid=anna", "is right", "rejects a user"):
        assert step in steps
    assert "anna's password" not in steps


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [("anna", "wrong", "wrong-password"), ("nobody", "anna's password", "unknown-user")],
)
def test_failed_test_prints_the_reason_and_exits_1(corp: Admit, user: str, password: str, reason: str):
    result = corp.run("identity-source", "test", "corp", *OF_ALPHA, "--user", user, text=f"{password}\n")
    assert result.exit_code == 1
    assert reason in result.stdout


def test_user_with_password_file_is_shown_updated_and_listed(alpha: Admit):
    alpha.json("user-group", "add", "staff", *OF_ALPHA)
    added = alpha.run("user", "add", "Ann", *OF_ALPHA, "--password-file", "-", text="correct horse\n")
    assert added.exit_code == 0, added.output
    end = "2099-01-31T18:00:00"
    changed = alpha.json("user", "set", "ann", *OF_ALPHA, "--group", "staff", "--valid-until", end, "--disable")
    assert changed == {
        "name": "ann",
        "disabled": True,
        "groups": ["staff"],
        "chap": False,
        "mschap": False,
        "valid_until": "2099-01-31T18:00:00+00:00",
    }
    assert alpha.json("user", "show", "ANN", *OF_ALPHA) == changed
    back = alpha.json("user", "set", "ann", *OF_ALPHA, "--no-groups", "--no-end", "--enable")
    assert (back["groups"], back["valid_until"], back["disabled"]) == ([], None, False)
    assert alpha.run("user", "set", "ann", *OF_ALPHA, "--group", "staff", "--no-groups").exit_code == 2
    assert alpha.run("user", "set", "ann", *OF_ALPHA).exit_code == 2
    assert alpha.run("user", "show", "bob", *OF_ALPHA).exit_code == 2


def test_user_file_is_stored_as_a_whole(alpha: Admit, tmp_path: Path):
    alpha.json("user-group", "add", "staff", *OF_ALPHA)
    alpha.json("user-group", "add", "it", *OF_ALPHA)
    rows = (
        "name,password,groups,valid_until,disabled\nAnn,correct horse,staff;it,2099-01-31,\nBob,battery staple,,,yes\n"
    )
    (tmp_path / "users.csv").write_text(rows)
    assert alpha.json("user", "add", "--import", str(tmp_path / "users.csv"), *OF_ALPHA) == {"added": 2}
    listed = [(row["name"], row["groups"], row["disabled"]) for row in alpha.json("user", "list", *OF_ALPHA)]
    assert listed == [("ann", ["it", "staff"], False), ("bob", [], True)]


@pytest.mark.parametrize(
    "command",
    [
        ("user", "add", "--import"),
        ("user", "add", "ann", "--password-file"),
        ("identity-source", "add", "corp", "--kind", "ldap", "--ca-file"),
        ("identity-source", "add", "corp", "--kind", "ldap", "--secret-file"),
    ],
)
def test_non_text_file_is_rejected(alpha: Admit, tmp_path: Path, command: tuple[str, ...]):
    (tmp_path / "latin-1").write_bytes("name,password\nJürgen,correct horse\n".encode("latin-1"))
    result = alpha.run(*command[:2], *OF_ALPHA, *command[2:], str(tmp_path / "latin-1"))
    assert result.exit_code == 2
    assert "latin-1: The file is not UTF-8 text. Save it as UTF-8." in result.stderr


def test_file_with_invalid_rows_lists_each_and_stores_nothing(alpha: Admit, tmp_path: Path):
    alpha.run("user", "add", "taken", *OF_ALPHA, "--password", "correct horse")
    rows = [
        "name,password,groups,valid_until,disabled",
        "fine,correct horse,,,",
        "taken,correct horse,,,",
        "fine,correct horse,,,",
        "short,abc,nobody-made-it,yesterday,perhaps",
        "00:11:22:33:44:55,correct horse,,2001-01-01,",
        "too,few",
    ]
    (tmp_path / "users.csv").write_text("\n".join(rows))
    result = alpha.run("user", "add", "--import", str(tmp_path / "users.csv"), *OF_ALPHA, "--json")
    assert result.exit_code == 2
    mistakes = [(each["line"], each["column"]) for each in json.loads(result.stdout)["mistakes"]]
    assert mistakes == [
        (3, "name"),
        (4, "name"),
        (5, "password"),
        (5, "groups"),
        (5, "valid_until"),
        (5, "disabled"),
        (6, "name"),
        (6, "valid_until"),
        (7, ""),
    ]
    assert [row["name"] for row in alpha.json("user", "list", *OF_ALPHA)] == ["taken"]


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ("", "name"),
        ("name\nann\n", "password"),
        ("name,password,age\n", "age"),
        ("name,password\n", ""),
        ('name,password\n"a', ""),
    ],
)
def test_file_that_is_not_a_user_list_is_rejected(alpha: Admit, tmp_path: Path, content: str, column: str):
    (tmp_path / "users.csv").write_text(content)
    result = alpha.run("user", "add", "--import", str(tmp_path / "users.csv"), *OF_ALPHA, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["mistakes"][0]["column"] == column
