"""How a command ends that cannot do its work: one sentence on standard error, exit status 1, no traceback.

With --json there is an object on standard output as well: `error` (a code for programs), `place`, `message`
and `remedy`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from nac.errors import AdmitError
from nac.settings import SettingsError


class Refused(AdmitError):
    """The command cannot be carried out here."""

    status = 409


@contextmanager
def text_read(name: str) -> Iterator[None]:
    """While the file of that name is read as text."""
    try:
        yield
    except UnicodeDecodeError as exc:
        raise Refused("The file is not UTF-8 text.", place=name, remedy="Save it as UTF-8.") from exc


@contextmanager
def report(*, as_json: bool = False) -> Iterator[None]:
    """Turn errors that a person can act on into click's way of saying so; anything else stays a traceback."""
    try:
        yield
    except SettingsError as exc:
        raise click.ClickException("\n  ".join(("the settings are not valid:", *exc.mistakes))) from exc
    except AdmitError as exc:
        if as_json:
            told = {"error": exc.code, "place": exc.place, "message": exc.detail, "remedy": exc.remedy}
            click.echo(json.dumps(told, indent=2))
        raise click.ClickException(str(exc)) from exc
