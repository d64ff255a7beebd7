"""Errors that a person or a program can act on."""

import json

from tests.cli.conftest import Admit

NOBODY = ("user", "show", "nobody", "--tenant", "alpha")


def test_person_is_told_in_a_sentence(alpha: Admit) -> None:
    result = alpha.run(*NOBODY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no user 'nobody'" in result.stderr


def test_program_gets_code_place_and_remedy_too(alpha: Admit) -> None:
    result = alpha.run(*NOBODY, "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["error"] == "user-not-found"
    assert told["message"].startswith("There is no user 'nobody'")
    assert told.keys() == {"error", "place", "message", "remedy"}
    assert "There is no user 'nobody'" in result.stderr


def test_status_tells_mistakes_from_what_stands_in_the_way(alpha: Admit) -> None:
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 0
    assert alpha.run("user-group", "add", "staff", "--tenant", "alpha").exit_code == 1
    again = alpha.run("tenant", "create", "alpha")
    assert (again.exit_code, "slug: There is a tenant 'alpha' already, made " in again.stderr) == (1, True)
    assert "it is active." in again.stderr
    for wrong in (("user-group", "remove", "nobody"), ("endpoint", "add", "zz"), ("policy", "hits", "-s", "none")):
        assert alpha.run(*wrong, "--tenant", "alpha").exit_code == 2, wrong


def test_program_gets_each_of_several_mistakes(alpha: Admit) -> None:
    result = alpha.run("endpoint", "classify", "zz", "--approve", "--group", "none", "--tenant", "alpha", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert (told["error"], [each["place"] for each in told["mistakes"]]) == ("several-mistakes", ["mac", "groups"])
    assert "2 mistakes:\n  mac: 'zz'" in result.stderr
