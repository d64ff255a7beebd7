"""How a command ends that cannot do its work: one sentence on standard error, no traceback.

Exit status 2 for mistakes in what was given (options, names, files), as click has it, and 1 for everything else.

With --json there is an object on standard output as well: `error` (a code for programs), `place`, `message`
and `remedy`, and `mistakes`, a list of such objects, where there are several. Of options, too, which click reads.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from nac.errors import AdmitError, InvalidInput, NotFound, SeveralMistakes
from nac.settings import SettingsError

BAD_INPUT = 2


class _Mistaken(click.ClickException):
    exit_code = BAD_INPUT


class Refused(AdmitError):
    """The command cannot be carried out here."""

    status = 409


def confirm(question: str) -> None:
    """Ask on standard error. Raises Refused where the answer is no, or nobody is there to give one."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as exc:
        raise Refused("It was not done: nobody answered.", remedy="--yes does it without asking.") from exc
    if not agreed:
        raise Refused("It was not done.")


@contextmanager
def text_read(name: str) -> Iterator[None]:
    """While the file of that name is read as text."""
    try:
        yield
    except UnicodeDecodeError as exc:
        raise InvalidInput("The file is not UTF-8 text.", place=name, remedy="Save it as UTF-8.") from exc


@contextmanager
def report(*, as_json: bool = False) -> Iterator[None]:
    """Turn errors that a person can act on into click's way of saying so; anything else stays a traceback."""
    try:
        yield
    except SettingsError as exc:
        raise click.ClickException("\n  ".join(("the settings are not valid:", *exc.mistakes))) from exc
    except click.UsageError as exc:
        if as_json:
            click.echo(json.dumps(_row(InvalidInput(exc.format_message(), place=_place(exc))), indent=2))
        raise
    except AdmitError as exc:
        if as_json:
            click.echo(json.dumps(_row(exc), indent=2))
        ended = _Mistaken if isinstance(exc, InvalidInput | NotFound) else click.ClickException
        raise ended(str(exc)) from exc


def _place(exc: click.UsageError) -> str:
    """The option or argument, as it is written."""
    match exc:
        case click.NoSuchOption() | click.BadOptionUsage():
            return exc.option_name
        case click.BadParameter(param=click.Argument() as argument):
            return argument.human_readable_name
        case click.BadParameter(param=click.Option() as option):
            return max(option.opts, key=len)
        case _:
            return ""


def _row(exc: AdmitError) -> dict[str, object]:
    row: dict[str, object] = {"error": exc.code, "place": exc.place, "message": exc.detail, "remedy": exc.remedy}
    if not isinstance(exc, SeveralMistakes):
        return row
    # How many; what they are, each says by itself.
    first = exc.detail.partition("\n")[0].rstrip(":.")
    return row | {"message": f"{first}.", "mistakes": [_row(each) for each in exc.mistakes]}
