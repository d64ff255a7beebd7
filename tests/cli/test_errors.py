"""Errors that a user or a program can act on."""

import json

import psycopg
import pytest

from tests.cli.conftest import Admit
from tests.postgres import Database

NOBODY = ("user", "show", "nobody", "--tenant", "alpha")


def test_error_is_a_sentence_and_with_json_an_object(alpha: Admit) -> None:
    in_text, in_json = alpha.run(*NOBODY), alpha.run(*NOBODY, "--json")
    assert (in_text.exit_code, in_text.stdout, in_json.exit_code) == (2, "", 2)
    for result in (in_text, in_json):
        assert "User 'nobody' does not exist" in result.stderr
    assert "List users: ./admit user list" in in_text.stderr
    told = json.loads(in_json.stdout)
    assert told.keys() == {"error", "place", "message", "remedy"}
    assert (told["error"], told["remedy"]) == ("user-not-found", "List users: ./admit user list")
    assert told["message"].startswith("User 'nobody' does not exist")


def test_unmigrated_database_is_reported_with_the_command(alpha: Admit, database: Database) -> None:
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        ((current,),) = connection.execute("DELETE FROM alembic_version RETURNING version_num").fetchall()
        try:
            refused = alpha.run("tenant", "delete", "alpha")
        finally:
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (current,))
    assert (refused.exit_code, "Migrate the database first: ./admit up" in refused.stderr) == (1, True)


def test_exit_status_separates_input_errors_from_conflicts(alpha: Admit) -> None:
    for status in (0, 1):
        assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == status
    again = alpha.run("tenant", "create", "alpha")
    assert (again.exit_code, "slug: Tenant 'alpha' already exists, created " in again.stderr) == (1, True)
    assert "it is active." in again.stderr
    for wrong in (("user-group", "remove", "nobody"), ("endpoint", "add", "zz"), ("policy", "hits", "-s", "none")):
        assert alpha.run(*wrong, "--tenant", "alpha").exit_code == 2, wrong


def test_json_lists_each_of_several_errors(alpha: Admit) -> None:
    result = alpha.run("endpoint", "classify", "zz", "--approve", "--group", "none", "--tenant", "alpha", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], [each["place"] for each in told["mistakes"]]) == ("several-mistakes", ["mac", "--group"])
    assert "2 mistakes.\n  mac: Invalid MAC address 'zz'" in result.stderr


@pytest.mark.parametrize(
    ("line", "place", "said"),
    [
        ("decisions --json -t alpha --since yesterday", "--since", "'yesterday' is neither"),
        ("decisions --json -t alpha --sinse 1h", "--sinse", "No such option"),
        ("decisions --json -t alpha --mac", "--mac", "requires an argument"),
        ("endpoint add -t alpha --json", "MAC", "Missing argument"),
        ("endpoint paint --json", "", "No such command 'paint'."),
    ],
)
def test_invalid_command_line_is_reported_in_json(alpha: Admit, line: str, place: str, said: str) -> None:
    result = alpha.run(*line.split())
    told = json.loads(result.stdout)
    assert (result.exit_code, told["error"], told["place"], told["remedy"]) == (2, "invalid-input", place, "")
    assert said in told["message"]
    assert said in result.stderr


def test_invalid_setting_is_reported_in_json(alpha: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIT_API_PORT", "abc")
    result = alpha.run("site", "list", "--tenant", "alpha", "--json")
    assert result.exit_code == 1
    [mistake] = json.loads(result.stdout)["mistakes"]
    assert "ADMIT_API_PORT is 'abc'" in mistake["message"]


@pytest.mark.parametrize(
    ("arguments", "listing"),
    [
        (("endpoint", "block", "001122334455", "-t", "alpha"), "./admit endpoint list"),
        (("site", "remove", "none", "-t", "alpha"), "./admit site list"),
        (("nas", "remove", "none", "-t", "alpha"), "./admit nas list"),
        (("cert", "revoke", "0a", "-t", "alpha"), "./admit cert list"),
        (("ca", "show", "none", "-t", "alpha"), "./admit ca list"),
        (("policy", "show", "-s", "none", "-t", "alpha"), "./admit policy list"),
        (("tenant", "show", "none"), "./admit tenant list"),
        (("tenant", "create", "new", "--msp", "none"), "./admit msp list"),
    ],
)
def test_unknown_name_error_names_the_list_command(alpha: Admit, arguments: tuple[str, ...], listing: str) -> None:
    result = alpha.run(*arguments)
    assert (result.exit_code, result.stderr.rstrip().endswith(f": {listing}")) == (2, True)
    of = ("-t", "alpha") if "-t" in arguments else ()
    assert alpha.run(*listing.split()[1:], *of).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("endpoint", "add", "001122334455", "-t", "alpha", "--until", "2001-02-03"),
            "--until: 2001-02-03 00:00:00 UTC is in the past. Use a time in the future.",
        ),
        (
            ("user", "add", "ann", "-t", "alpha", "--password", "correct horse", "--valid-until", "2001-02-03"),
            "--valid-until: 2001-02-03 00:00:00 UTC is in the past.",
        ),
        (("endpoint", "add", "00:11", "-t", "alpha"), "MAC: Invalid MAC address '00:11'."),
        (("endpoint", "add", "001122334455", "-t", "alpha", "--group", "x"), "--group: Unknown groups: 'x'."),
        (("user", "add", "ann", "-t", "alpha", "--password", "short"), "--password: "),
        (("site", "add", "Main", "-t", "alpha"), "SLUG: Invalid format."),
        (("nas", "add", "core-1", "-t", "alpha"), "--identifier: A NAS needs an identifier"),
        (("site", "list", "-t", "nobody"), "--tenant: This tenant does not exist."),
    ],
)
def test_invalid_input_prints_one_sentence_and_exits_2(
    alpha: Admit, arguments: tuple[str, ...], complaint: str
) -> None:
    result = alpha.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {complaint}")
    assert len(result.stderr.splitlines()) == 1
