"""`--help` of all commands, which must load neither the database libraries nor the engine to start in 0.3 s."""

import subprocess
import sys

import pytest

from cli.remote.aliases import list_nouns
from cli.remote.catalog import CHECKOUT, list_modules, load_catalog

HEAVY = ("cryptography", "fastapi", "nac.engine", "psycopg", "pydantic", "re2", "sqlalchemy")
# Runs `--help` of a command and of all commands below it, and prints their number and what they have imported.
PROGRAM = """
import click, sys
from cli.main import admit

def show_help(command, context):
    command.get_help(context)
    if not isinstance(command, click.Group):
        return 1
    below = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return sum(show_help(each, click.Context(each, info_name=name, parent=context)) for name, each in below)

root = click.Context(admit, info_name="admit")
command = admit.get_command(root, sys.argv[1])
print(show_help(command, click.Context(command, info_name=sys.argv[1], parent=root)))
print(*sorted(sys.modules.keys() & set(sys.argv[2:])))
"""


@pytest.mark.parametrize("name", sorted({*list_modules(), *(noun.split()[0] for noun in list_nouns())}))
def test_help_loads_no_heavy_library(name: str) -> None:
    # Made before, which loads everything.
    load_catalog()
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, name, *HEAVY], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    count, imported = done.stdout.splitlines()
    assert int(count) > 0
    assert imported == ""
