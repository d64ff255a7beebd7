"""What commands print for people."""

import click
import pytest
from click.testing import CliRunner

from cli.output import show_list, show_one


@pytest.mark.parametrize("value", ["\x1b[2J", ["\x1b[2J"], ("\x1b[2J",), {"key": "\x1b[2J"}])
def test_nothing_that_is_shown_steers_the_terminal(value):
    @click.command()
    def show():
        show_one({"name": value}, as_json=False)
        show_list([{"name": value}], as_json=False)

    assert "\x1b" not in CliRunner().invoke(show, color=True).output
