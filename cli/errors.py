"""Errors of commands: one sentence on standard error, no traceback.

The exit status is 2 for invalid input (options, names, files), as in click, and 1 for all other errors.

With --json, standard output also has an object with `error` (a code for programs), `place`, `message` and `remedy`. If
a command has several mistakes, `mistakes` is a list of objects with these keys. Errors of click about options have
these keys too.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from cli.operation_commands import render_advice
from cli.output import escape_unprintable
from nac.kit.errors import AdmitError, InvalidInput, NotFound, SeveralMistakes
from nac.kit.settings import SettingsError

EXIT_INVALID_INPUT = 2


class _InvalidInputExit(click.ClickException):
    exit_code = EXIT_INVALID_INPUT


class Refused(AdmitError):
    """The command cannot run here."""

    status = 409


def confirm(question: str) -> None:
    """Ask the user for a confirmation on standard error. Raises Refused if the answer is no or cannot be read."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as exc:
        raise Refused("Cancelled: confirmation required.", remedy="Use --yes to skip the confirmation.") from exc
    if not agreed:
        raise Refused("Cancelled.")


@contextmanager
def require_utf8(name: str) -> Iterator[None]:
    """Raise InvalidInput if the block cannot decode the file `name` as UTF-8."""
    try:
        yield
    except UnicodeDecodeError as exc:
        raise InvalidInput("The file is not UTF-8 text.", place=name, remedy="Save the file as UTF-8.") from exc


@contextmanager
def report_errors(*, as_json: bool = False) -> Iterator[None]:
    """Convert errors of Admit and of file access to errors of click. Other errors print a traceback."""
    try:
        yield
    except SettingsError as exc:
        if as_json:
            mistakes = SeveralMistakes([InvalidInput(mistake) for mistake in exc.mistakes])
            click.echo(json.dumps(_error_row(mistakes), indent=2))
        raise click.ClickException("\n  ".join(("the settings are not valid:", *exc.mistakes))) from exc
    except click.UsageError as exc:
        if as_json:
            click.echo(json.dumps(_error_row(InvalidInput(exc.format_message(), place=_parameter_name(exc))), indent=2))
        raise
    except AdmitError as exc:
        if as_json:
            click.echo(json.dumps(_error_row(exc), indent=2))
        ended = _InvalidInputExit if isinstance(exc, InvalidInput | NotFound) else click.ClickException
        raise ended(describe_error(exc)) from exc
    except BrokenPipeError:
        # click ends the command without a message.
        raise
    except OSError as exc:
        # For example a full disk, or a folder that the user cannot access.
        name = exc.filename if isinstance(exc.filename, str) else "The output"
        raise click.ClickException(f"{name}: {exc.strerror or exc}.") from exc


def describe_error(exc: AdmitError) -> str:
    """Return the text of the error, with commands as next steps and without control characters.

    A server, a file or a device can choose parts of the text.
    """
    return "\n".join(map(escape_unprintable, exc.describe(render_advice).split("\n")))


def _parameter_name(exc: click.UsageError) -> str:
    """Return the name of an option or argument as people type the name."""
    match exc:
        case click.NoSuchOption() | click.BadOptionUsage():
            return exc.option_name
        case click.BadParameter(param=click.Argument() as argument):
            return argument.human_readable_name
        case click.BadParameter(param=click.Option() as option):
            return max(option.opts, key=len)
        case _:
            return ""


def _error_row(exc: AdmitError) -> dict[str, object]:
    message, remedy = render_advice(exc.detail), render_advice(exc.remedy)
    row: dict[str, object] = {"error": exc.code, "place": exc.place, "message": message, "remedy": remedy}
    if not isinstance(exc, SeveralMistakes):
        return {**exc.members, **row}
    # The text of the error contains only the number of mistakes, because each mistake has a separate text.
    first = exc.detail.partition("\n")[0].rstrip(":.")
    return row | {"message": f"{first}.", "mistakes": [_error_row(each) for each in exc.mistakes]}
