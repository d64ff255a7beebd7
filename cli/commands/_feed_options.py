"""Feed settings as options. Omitted ones keep their value or default."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TextIO, TypeVar

import click

from cli.errors import require_utf8
from cli.files import first_line
from nac.kit.errors import InvalidInput
from nac.logs.feeds.event_sources import EVENT_KINDS
from nac.logs.feeds.settings import FACILITIES, OUTCOMES, SEVERITIES

F = TypeVar("F", bound=Callable[..., object])
_Option = Callable[[Any], Any]
PEM = click.File(encoding="utf-8")

_SHARED: tuple[_Option, ...] = (
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        type=click.Choice(EVENT_KINDS),
        help="Kind of event (default all); repeatable.",
    ),
    click.option(
        "--outcome",
        "outcomes",
        multiple=True,
        type=click.Choice(OUTCOMES),
        help="Outcome of events (default all); repeatable.",
    ),
    click.option("--ca-file", type=PEM, help="PEM file with the authority of the server's certificate."),
    click.option("--network", "networks", multiple=True, help="Network that the host must be in (CIDR); repeatable."),
    click.option(
        "--timeout", "timeout_seconds", type=float, help="Timeout of each step in seconds, 1 to 10 (default 5)."
    ),
)
_SYSLOG: tuple[_Option, ...] = (
    click.option("--port", type=int, help="TCP port for TLS (default 6514)."),
    click.option("--facility", type=click.Choice(list(FACILITIES)), help="Syslog facility (default authpriv)."),
    click.option("--app-name", help="APP-NAME of messages (default admit)."),
    click.option("--hostname", help="HOSTNAME of messages (default this machine's name)."),
    click.option("--enterprise", type=int, help="Private enterprise number in the SD-ID (default 32473)."),
    click.option(
        "--severity",
        "severities",
        multiple=True,
        metavar="KIND[.OUTCOME]=NAME",
        help="Severity of a kind or outcome; repeatable.",
    ),
    click.option("--bom/--no-bom", default=None, help="UTF-8 messages with a byte order mark (default ASCII)."),
)
_WEBHOOK: tuple[_Option, ...] = (
    click.option("--batch", type=int, help="Maximum events in a request, 1 to 500 (default 100)."),
    click.option(
        "--header-file",
        type=PEM,
        help='File of request headers, one on each line, such as "Authorization: Bearer ...", stored '
        'encrypted. "-": standard input.',
    ),
)


def shared(function: F) -> F:
    return _with(function, _SHARED)


def of_syslog(function: F) -> F:
    return _with(function, _SYSLOG)


def of_webhook(function: F) -> F:
    return _with(function, _WEBHOOK)


def _with(function: F, options: Iterable[_Option]) -> F:
    return reduce(lambda made, option: option(made), reversed(tuple(options)), function)


def collect_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the settings from the options, by name."""
    settings = {name: value for name, value in options.items() if value is not None and value != ()}
    if settings.get("url") == "-":
        if "header_file" in settings and settings["header_file"].name in ("-", "<stdin>"):
            raise click.UsageError(
                "Only one of URL and headers can come from standard input. Use a file for the headers."
            )
        # A URL may contain a key.
        settings["url"] = first_line(sys.stdin)
    if (file := settings.pop("ca_file", None)) is not None:
        settings["ca_certificate"] = pem(file)
    if (file := settings.pop("header_file", None)) is not None:
        settings["headers"] = _headers(file)
    if "severities" in settings:
        settings["severities"] = dict(_pairs(settings["severities"]))
    return settings


def pem(file: TextIO | None) -> str:
    if file is None:
        return ""
    with require_utf8(file.name):
        return file.read()


def _headers(file: TextIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    with require_utf8(file.name):
        for number, line in enumerate(file.read().splitlines(), start=1):
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or name in headers:
                raise InvalidInput(
                    "Invalid header." if not colon else "Duplicate header.",
                    place=f"{file.name}, line {number}",
                    remedy="Use Name: value, each name once.",
                )
            headers[name] = value.strip(" \t")
    return headers


def _pairs(severities: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in severities:
        what, equals, severity = text.partition("=")
        if not equals:
            raise click.UsageError(
                f"Invalid --severity {text!r}. Use KIND[.OUTCOME]=NAME. NAME is one of {', '.join(SEVERITIES)}."
            )
        yield what, severity
