"""Errors that a person or a program can act on."""

import json

import pytest

from tests.cli.conftest import Admit

NOBODY = ("user", "show", "nobody", "--tenant", "alpha")


def test_person_is_told_in_a_sentence(alpha: Admit) -> None:
    result = alpha.run(*NOBODY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "User 'nobody' does not exist" in result.stderr


def test_program_gets_code_place_and_remedy_too(alpha: Admit) -> None:
    result = alpha.run(*NOBODY, "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["error"] == "user-not-found"
    assert told["message"].startswith("User 'nobody' does not exist")
    assert told.keys() == {"error", "place", "message", "remedy"}
    assert "User 'nobody' does not exist" in result.stderr


def test_status_tells_mistakes_from_what_stands_in_the_way(alpha: Admit) -> None:
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 0
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 1
    again = alpha.run("tenant", "create", "alpha")
    assert (again.exit_code, "slug: Tenant 'alpha' already exists, created " in again.stderr) == (1, True)
    assert "it is active." in again.stderr
    for wrong in (("user-group", "remove", "nobody"), ("endpoint", "add", "zz"), ("policy", "hits", "-s", "none")):
        assert alpha.run(*wrong, "--tenant", "alpha").exit_code == 2, wrong


def test_program_gets_each_of_several_mistakes(alpha: Admit) -> None:
    result = alpha.run("endpoint", "classify", "zz", "--approve", "--group", "none", "--tenant", "alpha", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], [each["place"] for each in told["mistakes"]]) == ("several-mistakes", ["mac", "groups"])
    assert "2 mistakes:\n  mac: Invalid MAC address 'zz'" in result.stderr


@pytest.mark.parametrize(
    ("given", "place", "said"),
    [
        (("--since", "yesterday"), "--since", "'yesterday' is neither"),
        (("--sinse", "1h"), "--sinse", "No such option"),
        (("--mac",), "--mac", "requires an argument"),
    ],
)
def test_program_gets_what_is_wrong_with_an_option_as_json_too(
    alpha: Admit, given: tuple[str, ...], place: str, said: str
) -> None:
    result = alpha.run("decisions", "--tenant", "alpha", "--json", *given)
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], told["place"], told["remedy"]) == ("invalid-input", place, "")
    assert said in told["message"]
    assert said in result.stderr


def test_program_gets_what_is_missing_or_too_much_as_json_too(alpha: Admit) -> None:
    missing = alpha.run("endpoint", "add", "--tenant", "alpha", "--json")
    assert (missing.exit_code, json.loads(missing.stdout)["place"]) == (2, "MAC")
    unknown = alpha.run("endpoint", "paint", "--json")
    assert (unknown.exit_code, json.loads(unknown.stdout)["message"]) == (2, "No such command 'paint'.")
