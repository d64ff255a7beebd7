"""Errors that a person or a program can act on."""

import json

from tests.cli.conftest import Admit

NOBODY = ("user", "show", "nobody", "--tenant", "alpha")


def test_person_is_told_in_a_sentence(alpha: Admit) -> None:
    result = alpha.run(*NOBODY)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "There is no user 'nobody'" in result.stderr


def test_program_gets_code_place_and_remedy_too(alpha: Admit) -> None:
    result = alpha.run(*NOBODY, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["error"] == "user-not-found"
    assert told["message"].startswith("There is no user 'nobody'")
    assert told.keys() == {"error", "place", "message", "remedy"}
    assert "There is no user 'nobody'" in result.stderr
