"""`--help` of all commands, which must load neither the database libraries nor the engine to start in 0.3 s."""

import subprocess
import sys

from cli.remote.aliases import list_nouns
from cli.remote.catalog import CHECKOUT, list_modules, load_catalog

HEAVY = ("cryptography", "fastapi", "nac.engine", "psycopg", "pydantic", "re2", "sqlalchemy")
# Runs `--help` of each command and of all commands below it. Prints their number and what they have imported.
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
heavy = set(sys.argv[1].split())
for name in sys.argv[2:]:
    command = admit.get_command(root, name)
    print(name, show_help(command, click.Context(command, info_name=name, parent=root)) > 0, heavy & sys.modules.keys())
"""


def test_help_loads_no_heavy_library() -> None:
    # Made before, which loads everything.
    load_catalog()
    names = sorted({*list_modules(), *(noun.split()[0] for noun in list_nouns())})
    command = [sys.executable, "-P", "-c", PROGRAM, " ".join(HEAVY), *names]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    # The first line with a library names the command that loads it.
    assert done.stdout.splitlines() == [f"{name} True set()" for name in names]
