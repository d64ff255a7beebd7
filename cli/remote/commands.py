"""Commands for the operations of an API: `./admit api` and the short commands of `commands.toml`."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPResponse
from typing import Any, BinaryIO, cast

import click

from cli.errors import confirm
from cli.remote.aliases import Alias
from cli.remote.arguments import choose_operation, collect_arguments, read_body
from cli.remote.client import ApiClient, RequestArguments, read_json
from cli.remote.description import Operation
from cli.remote.local_api import await_radiusd
from cli.remote.options import (
    AS_JSON,
    BODY,
    OUTPUT,
    format_metavar,
    make_arguments,
    make_option,
    make_output_options,
    make_owner_option,
    make_short_options,
    name_variable,
)
from cli.remote.results import name_commands, show_result
from cli.remote.value_types import choose_raw_type
from nac.kit.errors import InvalidInput

_CHUNK = 64 * 1024
_MAX_PAGE = 1000
_LOG_LIMIT = 100
_ALL, _LIMIT, _YES = "all_pages", "limit", "yes"
_OWNERS = ("tenant", "msp")

Connect = Callable[[], ApiClient]


def make_raw_command(operation: Operation, connect: Connect) -> click.Command:
    """Command with path parameters as arguments and all other values as options, named as in the API."""
    parameters: list[click.Parameter] = []
    for value in operation.values:
        if value.where == "path":
            parameters.append(click.Argument([name_variable(value)], metavar=format_metavar(value.name)))
        else:
            parameters.append(make_option(value, [f"--{value.option}"], choose_raw_type(value)))
    if operation.takes:
        text = 'File with the whole body; "-": standard input.'
        parameters.append(click.Option(["--body", BODY], type=click.File("rb"), help=f"{text} {operation.takes}."))
    if operation.is_page:
        parameters.append(click.Option(["--all", _ALL], is_flag=True, help="Get all pages."))
    parameters += make_output_options(with_output=True)

    def run(**given: Any) -> None:  # noqa: ANN401 -- what the options give
        arguments = collect_arguments(operation, given)
        arguments.body = read_body(operation, given.get(BODY), arguments)
        api = connect()
        document, _ = _call(operation, api, arguments, output=given[OUTPUT], with_etag=True)
        if operation.is_page and given.get(_ALL):
            document = {"items": _fetch_items(operation, api, arguments, document), "next": None}
        show_result(document, as_json=given[AS_JSON], is_page=operation.is_page)

    return click.Command(
        operation.name, callback=run, params=parameters, help=f"{operation.help}\n\n{operation.method} {operation.path}"
    )


def make_short_command(verb: str, alias: Alias, operations: Sequence[Operation], connect: Connect) -> click.Command:
    """Command of the table: tenant and MSP as options, changes wait until they are live, lists return items."""
    first = operations[0]
    values = {value.name: value for each in reversed(operations) for value in each.values}
    with_ages = "since" in values
    parameters = make_arguments(alias, values)
    placed = {each.field for each in alias.arguments} | (alias.fixed.keys() - alias.flags.keys())
    for value in values.values():
        if value.name in placed or value.where == "header" or value.name == "wait":
            continue
        if value.name in _OWNERS and value.where == "path":
            parameters.append(make_owner_option(value.name, required=all(value in each.values for each in operations)))
        elif value.where == "path":
            parameters.append(click.Argument([name_variable(value)], metavar=format_metavar(value.name)))
        elif value.name == "limit" and first.is_page:
            text = f"Maximum number of items (default {_LOG_LIMIT if with_ages else 'all'})."
            parameters.append(click.Option(["--limit", _LIMIT], type=click.IntRange(min=1), help=text))
        else:
            changes = first.method == "PATCH"
            parameters += make_short_options(value, alias, with_ages=with_ages, changes=changes)
    if alias.is_confirmed:
        parameters.append(click.Option(["--yes", _YES], is_flag=True, help="Skip the confirmation."))
    parameters += make_output_options(with_output=first.has_file)

    def run(**given: Any) -> None:  # noqa: ANN401 -- what the options give
        operation = choose_operation(operations, alias, given)
        arguments = collect_arguments(operation, given, alias)
        if alias.is_confirmed and not given[_YES]:
            confirm(f"This cannot be undone: {operation.help.splitlines()[0].rstrip('.')}. Continue?")
        document = _call_short(operation, alias, arguments, given, connect(), limit=given.get(_LIMIT) or default_limit)
        show_result(name_commands(document), as_json=given[AS_JSON], columns=alias.columns)
        if alias.success_field and not document[alias.success_field]:
            raise click.exceptions.Exit(1)

    default_limit = _LOG_LIMIT if with_ages else None
    return click.Command(verb, callback=run, params=parameters, help=alias.help or first.help)


def _call_short(
    operation: Operation,
    alias: Alias,
    arguments: RequestArguments,
    given: Mapping[str, Any],
    api: ApiClient,
    *,
    limit: int | None,
) -> Any:  # noqa: ANN401 -- any document
    if alias.body_file:
        arguments.body = given[BODY].read()
    elif operation.takes:
        if operation.method == "PATCH" and not arguments.members:
            raise InvalidInput("No setting to change.", remedy="See the options: --help")
        arguments.body = json.dumps(arguments.members).encode()
    if any(value.name == "wait" for value in operation.values):
        arguments.query["wait"] = "live"
    if operation.is_page:
        arguments.query["limit"] = min(limit or _MAX_PAGE, _MAX_PAGE)
    document, is_live = _call(operation, api, arguments, output=given.get(OUTPUT))
    if alias.waits_for_radiusd and is_live and alias.radiusd_field in ("", *arguments.members):
        await_radiusd(api, arguments.path["tenant"])
    if operation.is_page:
        return _fetch_items(operation, api, arguments, document, limit=limit)
    if document is None and operation.method == "DELETE":
        return {"removed": list(arguments.path.values())[-1]}
    # Lists without pages.
    is_list = operation.name.startswith("list-") or operation.name == "create-coa-requests"
    return document["items"] if is_list and isinstance(document, dict) and "items" in document else document


def _call(
    operation: Operation,
    api: ApiClient,
    given: RequestArguments,
    *,
    output: BinaryIO | None = None,
    with_etag: bool = False,
) -> tuple[Any, bool]:
    """Document of the response, and whether a change is live. None if it is empty or was copied to `output`."""
    with api.call(operation, given) as response:
        is_live = response.getheader("admit-live") != "false"
        if not is_live:
            click.echo("Note: The change is stored, but the tenant's cell has not confirmed it yet.", err=True)
        if with_etag and operation.method == "GET" and (tag := response.getheader("etag")) is not None:
            click.echo(f"ETag: {tag}", err=True)
        if output is not None or not _is_json(response):
            _copy(response, output or cast("BinaryIO", sys.stdout.buffer))
            return None, is_live
        return read_json(response), is_live


def _is_json(response: HTTPResponse) -> bool:
    kind = response.getheader("content-type") or "application/json"
    return kind.split(";")[0] == "application/json"


def _copy(response: HTTPResponse, output: BinaryIO) -> None:
    while chunk := response.read(_CHUNK):
        output.write(chunk)
        output.flush()


def _fetch_items(
    operation: Operation, api: ApiClient, given: RequestArguments, page: dict[str, Any], *, limit: int | None = None
) -> list[Any]:
    """Items of this page and the following ones, at most `limit`."""
    items, after = page["items"], page["next"]
    while after is not None and (limit is None or len(items) < limit):
        given.query["after"] = after
        given.query["limit"] = _MAX_PAGE if limit is None else min(limit - len(items), _MAX_PAGE)
        page, _ = _call(operation, api, given)
        items, after = items + page["items"], page["next"]
    if after is not None:
        click.echo(f"More: --after {after}", err=True)
    return cast("list[Any]", items)
