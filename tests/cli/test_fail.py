"""Errors that a user or a program can act on."""

import json

import psycopg
import pytest

from tests.cli.conftest import Admit
from tests.postgres import Database

NOBODY = ("user", "show", "nobody", "--tenant", "alpha")


def test_text_error_is_a_sentence(alpha: Admit) -> None:
    result = alpha.run(*NOBODY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "User 'nobody' does not exist" in result.stderr


def test_json_error_has_code_path_and_remedy(alpha: Admit) -> None:
    result = alpha.run(*NOBODY, "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["error"] == "user-not-found"
    assert told["message"].startswith("User 'nobody' does not exist")
    assert told.keys() == {"error", "place", "message", "remedy"}
    assert "User 'nobody' does not exist" in result.stderr


def test_remedies_name_commands(alpha: Admit) -> None:
    assert "List users: ./admit user list" in alpha.run(*NOBODY).stderr
    assert json.loads(alpha.run(*NOBODY, "--json").stdout)["remedy"] == "List users: ./admit user list"


def test_unmigrated_database_is_reported_with_the_command(alpha: Admit, database: Database) -> None:
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        ((current,),) = connection.execute("DELETE FROM alembic_version RETURNING version_num").fetchall()
        try:
            refused = alpha.run("tenant", "delete", "alpha")
        finally:
            connection.execute("INSERT INTO alembic_version VALUES (%s)", (current,))
    assert (refused.exit_code, "Migrate the database first: ./admit up" in refused.stderr) == (1, True)


def test_exit_status_separates_input_errors_from_conflicts(alpha: Admit) -> None:
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 0
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 1
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
    ("given", "place", "said"),
    [
        (("--since", "yesterday"), "--since", "'yesterday' is neither"),
        (("--sinse", "1h"), "--sinse", "No such option"),
        (("--mac",), "--mac", "requires an argument"),
    ],
)
def test_invalid_option_is_reported_in_json(alpha: Admit, given: tuple[str, ...], place: str, said: str) -> None:
    result = alpha.run("decisions", "--tenant", "alpha", "--json", *given)
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], told["place"], told["remedy"]) == ("invalid-input", place, "")
    assert said in told["message"]
    assert said in result.stderr


def test_missing_or_extra_arguments_are_reported_in_json(alpha: Admit) -> None:
    missing = alpha.run("endpoint", "add", "--tenant", "alpha", "--json")
    assert (missing.exit_code, json.loads(missing.stdout)["place"]) == (2, "MAC")
    unknown = alpha.run("endpoint", "paint", "--json")
    assert (unknown.exit_code, json.loads(unknown.stdout)["message"]) == (2, "No such command 'paint'.")
