"""Settings of feeds as options. What is not given is left as it is, or as usual."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, TextIO, TypeVar

import click

from cli.commands.user import first_line
from cli.fail import text_read
from nac.errors import InvalidInput
from nac.feeds.event_sources import EVENT_KINDS
from nac.feeds.settings import FACILITIES, OUTCOMES, SEVERITIES

F = TypeVar("F", bound=Callable[..., object])
_Option = Callable[[Any], Any]
PEM = click.File(encoding="utf-8")

_SHARED: tuple[_Option, ...] = (
    click.option("--kind", "kinds", multiple=True, type=click.Choice(EVENT_KINDS), help="Only these; all otherwise."),
    click.option("--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Only these events."),
    click.option("--ca-file", type=PEM, help="PEM of the authority of its server certificate."),
    click.option("--network", "networks", multiple=True, help="Where alone its host may be, as CIDR."),
    click.option("--timeout", "timeout_seconds", type=float, help="Seconds of a step, 1 to 10; 5 otherwise."),
)
_SYSLOG: tuple[_Option, ...] = (
    click.option("--port", type=int, help="TCP, with TLS; 6514 otherwise."),
    click.option("--facility", type=click.Choice(list(FACILITIES)), help="authpriv otherwise."),
    click.option("--app-name", help="APP-NAME of messages; admit otherwise."),
    click.option("--hostname", help="HOSTNAME of messages; this machine's otherwise."),
    click.option("--enterprise", type=int, help="Private enterprise number in the SD-ID; 32473 otherwise."),
    click.option("--severity", "severities", multiple=True, metavar="KIND[.OUTCOME]=NAME", help="May be repeated."),
    click.option("--bom/--no-bom", default=None, help="Messages are UTF-8 with a byte order mark, not ASCII."),
)
_WEBHOOK: tuple[_Option, ...] = (
    click.option("--batch", type=int, help="Events of one request at the most, 1 to 500; 100 otherwise."),
    click.option(
        "--header-file",
        type=PEM,
        help='Headers of each request, such as "Authorization: Bearer ...", one a line; sealed. "-": standard input.',
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


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, by their names."""
    found = {name: value for name, value in options.items() if value is not None and value != ()}
    if found.get("url") == "-":
        if "header_file" in found and found["header_file"].name in ("-", "<stdin>"):
            raise click.UsageError("Address and headers cannot both come from standard input: give a file of headers.")
        # An address may hold a key.
        found["url"] = first_line(sys.stdin)
    if (file := found.pop("ca_file", None)) is not None:
        found["ca_certificate"] = pem(file)
    if (file := found.pop("header_file", None)) is not None:
        found["headers"] = _headers(file)
    if "severities" in found:
        found["severities"] = dict(_pairs(found["severities"]))
    return found


def pem(file: TextIO | None) -> str:
    if file is None:
        return ""
    with text_read(file.name):
        return file.read()


def _headers(file: TextIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    with text_read(file.name):
        for number, line in enumerate(file.read().splitlines(), start=1):
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or name in headers:
                raise InvalidInput(
                    "It is no header." if not colon else "The header is there twice.",
                    place=f"{file.name}, line {number}",
                    remedy="Write Name: value, each name once.",
                )
            headers[name] = value.strip(" \t")
    return headers


def _pairs(severities: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in severities:
        what, equals, severity = text.partition("=")
        if not equals:
            raise click.UsageError(f"--severity {text}: write KIND=NAME, NAME one of {', '.join(SEVERITIES)}.")
        yield what, severity
