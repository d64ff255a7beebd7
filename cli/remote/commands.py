"""Commands for the operations of an API: `./admit api` and the short commands of `commands.toml`."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPResponse
from typing import Any, BinaryIO, cast

import click

from cli.errors import Refused, confirm
from cli.layout import NothingRuns
from cli.remote.aliases import Alias, Argument, Lookup
from cli.remote.arguments import choose_operation, collect_arguments, format_query_value, read_body
from cli.remote.catalog import load_catalog
from cli.remote.client import ApiClient, ApiUnreachable, RequestArguments, read_json, read_problem, rename_places
from cli.remote.description import Operation
from cli.remote.local_api import await_radiusd
from cli.remote.options import (
    AS_JSON,
    BODY,
    OUTPUT,
    format_metavar,
    make_argument,
    make_arguments,
    make_call_flag,
    make_option,
    make_output_options,
    make_owner_option,
    make_short_options,
    name_place,
    name_variable,
)
from cli.remote.results import name_commands, show_result
from cli.remote.value_types import choose_raw_type
from nac.kit.errors import AdmitError, InvalidInput, NotFound

_CHUNK = 64 * 1024
_MAX_PAGE = 1000
_LOG_LIMIT = 100
_POLL_SECONDS = 0.2
# Time in seconds for which a command that waits for a job tolerates that the API does not respond.
_RESTART_SECONDS = 30.0
_QUEUE_SECONDS = 60
_ALL, _LIMIT, _YES = "all_pages", "limit", "yes"
_OWNERS = ("tenant", "msp")

Connect = Callable[[], ApiClient]


class UnknownItem(NotFound):
    """No item has this name."""


def make_raw_command(operation: Operation, connect: Connect) -> click.Command:
    """Return a command of `./admit api`. Path parameters are arguments.

    All other values are options, named as in the API.
    """
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
        document = _call(operation, api, arguments, output=given[OUTPUT], with_etag=True).document
        if operation.is_page and given.get(_ALL):
            document = {"items": _fetch_items(operation, api, arguments, document), "next": None}
        show_result(document, as_json=given[AS_JSON], is_page=operation.is_page)

    return click.Command(
        operation.name, callback=run, params=parameters, help=f"{operation.help}\n\n{operation.method} {operation.path}"
    )


def make_short_command(verb: str, alias: Alias, known: Mapping[str, Operation], connect: Connect) -> click.Command:
    """Return a short command of commands.toml. The tenant and the MSP are options of the command.

    Commands that change something wait until the change is live.

    Commands that list print only the items.
    """
    operations = [known[name] for name in alias.operations]
    first = operations[0]
    values = {value.name: value for each in reversed(operations) for value in each.values}
    with_ages = "since" in values
    parameters = make_arguments(alias, values)
    placed = {each.field for each in alias.arguments} | (alias.fixed.keys() - alias.flags.keys())
    for value in values.values():
        is_of_other_form = value.form not in ("", *alias.fixed.values())
        if value.name in placed or value.where == "header" or value.name == "wait" or is_of_other_form:
            continue
        is_common = all(value in each.values for each in operations)
        if value.name in _OWNERS and value.where == "path":
            parameters.append(make_owner_option(value.name, required=is_common))
        elif value.where == "path" and value.name not in alias.options:
            parameters.append(make_argument(Argument(value.name), value, alias))
        elif value.name == "limit" and first.is_page:
            text = f"Maximum number of items to list (default {_LOG_LIMIT if with_ages else 'all'})."
            parameters.append(click.Option(["--limit", _LIMIT], type=click.IntRange(min=1), help=text))
        else:
            options = make_short_options(value, alias, with_ages=with_ages, changes=first.method == "PATCH")
            options[0].required |= value.where == "path" and is_common and value.name not in alias.lookups
            parameters += options
    parameters += [make_call_flag(flag, known[name]) for flag, name in alias.calls.items()]
    if alias.is_confirmed:
        parameters.append(click.Option(["--yes", _YES], is_flag=True, help="Skip the confirmation."))
    parameters += make_output_options(with_output=first.has_file)

    def run(**given: Any) -> None:  # noqa: ANN401 -- what the options give
        operation = choose_operation(operations, alias, given)
        api = connect()
        given = given | _look_up(operation, alias, given, api)
        arguments = collect_arguments(operation, given, alias)
        if alias.is_confirmed and not given[_YES]:
            confirm(f"This cannot be undone: {operation.help.splitlines()[0].rstrip('.')}. Continue?")
        try:
            document = _call_short(operation, alias, arguments, given, api, limit=given.get(_LIMIT) or default_limit)
        except AdmitError as exc:
            rename_places(exc, lambda place: name_place(place, operation, alias))
            raise
        show_result(name_commands(document), as_json=given[AS_JSON], columns=alias.columns)
        if alias.success_field and not document[alias.success_field]:
            raise click.exceptions.Exit(1)

    default_limit = _LOG_LIMIT if with_ages else None
    return click.Command(verb, callback=run, params=parameters, help=alias.help or first.help)


def _look_up(operation: Operation, alias: Alias, given: Mapping[str, Any], api: ApiClient) -> dict[str, Any]:
    """Return the values of the fields for which people type a name, such as the id of the item with this name.

    If a list has only one item, people can omit the name of the item.
    """
    found: dict[str, Any] = {}
    for value in operation.values:
        name = name_variable(value)
        lookup = alias.lookups.get(value.name)
        if lookup is None or (given.get(name) and lookup.key == lookup.member):
            continue
        tenant = {"tenant": given["path_tenant"]} if given.get("path_tenant") else {}
        items = list_items(api, lookup.operation, **tenant)
        found[name] = choose_item(items, lookup, given.get(name), value.name)
    return found


def choose_item(items: Iterator[Mapping[str, Any]], lookup: Lookup, text: str | None, place: str) -> Any:  # noqa: ANN401 -- a member
    """Return the value (field `lookup.member`) of the item with this name, or of the only item if the name is empty.

    Raises NotFound or InvalidInput.
    """
    if text:
        names = (text, text.lower())
        for item in items:
            if item[lookup.key] in names or item[lookup.member] == text:
                return item[lookup.member]
        raise UnknownItem(f"Unknown {lookup.key} {text!r}.", place=lookup.key)
    all_items = list(items)
    if not all_items:
        raise UnknownItem(f"No {place} exists.", place=place)
    if len(all_items) > 1:
        choices = ", ".join(str(item[lookup.key]) for item in all_items)
        raise InvalidInput(f"Choose one of: {choices}.", place=place)
    return all_items[0][lookup.member]


def call_operation(api: ApiClient, name: str, /, **values: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Call an operation with `values` (value by name), and return the result. Waits until changes are live and jobs
    end.

    With `wait=None`, does not wait until changes are live, and prints no note about changes that are not live.
    """
    return _await_job(api, _call_by_name(api, name, values)).document


def start_operation(api: ApiClient, name: str, /, **values: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Call an operation like `call_operation`, but do not wait for the job that the operation starts."""
    return _call_by_name(api, name, values).document


def download(api: ApiClient, name: str, output: BinaryIO, /, **values: str) -> None:
    """Copy the file that an operation returns to `output`."""
    _call_by_name(api, name, values, output)


def list_items(api: ApiClient, name: str, /, **values: Any) -> Iterator[Any]:  # noqa: ANN401 -- as above
    """Yield the items of all pages of a list. `limit` is the size of a page."""
    operation = load_catalog().operations[name]
    given = _place_values(operation, ({"limit": _MAX_PAGE} if operation.is_page else {}) | values)
    while True:
        page = _call(operation, api, given).document
        yield from page["items"]
        given.query["after"] = page.get("next")
        if given.query["after"] is None:
            return


def _call_by_name(api: ApiClient, name: str, values: Mapping[str, Any], output: BinaryIO | None = None) -> "_Answer":
    operation = load_catalog().operations[name]
    given = _place_values(operation, values)
    if operation.takes:
        given.headers["Content-Type"] = operation.takes
        body = values.get("body")
        given.body = json.dumps(given.members).encode() if body is None else body
    if "wait" not in values and any(value.name == "wait" for value in operation.values):
        given.query["wait"] = "live"
    return _call(operation, api, given, output=output, notes_delay="wait" in given.query)


def _place_values(operation: Operation, values: Mapping[str, Any]) -> RequestArguments:
    """Return the arguments of an operation for values by name, except values that are None."""
    given = RequestArguments()
    unknown = values.keys() - {value.name for value in operation.values} - {"body"}
    assert not unknown, unknown
    for value in operation.values:
        sent = values.get(value.name)
        if sent is None:
            continue
        if value.where == "body":
            given.members[value.name] = sent
        else:
            places = {"path": given.path, "query": given.query, "header": given.headers}
            places[value.where][value.name] = str(sent) if value.where == "path" else format_query_value(sent)
    return given


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
            raise InvalidInput(
                "No setting is specified.", remedy="Set at least one option. To list the options: --help"
            )
        arguments.body = json.dumps(arguments.members).encode()
    if any(value.name == "wait" for value in operation.values):
        arguments.query["wait"] = "live"
    if operation.is_page:
        arguments.query["limit"] = min(limit or _MAX_PAGE, _MAX_PAGE)
    answer = _call(operation, api, arguments, output=given.get(OUTPUT))
    if alias.waits_for_job:
        answer = _await_job(api, answer)
    document = answer.document
    if alias.waits_for_radiusd and answer.is_live and alias.radiusd_field in ("", *arguments.members):
        await_radiusd(api, arguments.path["tenant"])
    if operation.is_page:
        return _fetch_items(operation, api, arguments, document, limit=limit)
    if document is None and operation.method == "DELETE":
        last = operation.path.rpartition("/")[2]
        return {"removed": arguments.path.get(last.strip("{}"), last)}
    # Some lists have no pages.
    is_list = operation.name.startswith("list-") or operation.name == "create-coa-requests"
    return document["items"] if is_list and isinstance(document, dict) and "items" in document else document


@dataclass(frozen=True, slots=True)
class _Answer:
    # Document of the response; None if the response is empty or was copied to a file.
    document: Any
    is_live: bool = True
    # Path of the job that the operation started; "" if it started none.
    job_path: str = ""


def _call(
    operation: Operation,
    api: ApiClient,
    given: RequestArguments,
    *,
    output: BinaryIO | None = None,
    with_etag: bool = False,
    notes_delay: bool = True,
) -> _Answer:
    with api.call(operation, given) as response:
        is_live = response.getheader("admit-live") != "false"
        if notes_delay and not is_live:
            click.echo("Note: The change is stored, but the tenant's cell has not confirmed the change yet.", err=True)
        if with_etag and operation.method == "GET" and (tag := response.getheader("etag")) is not None:
            click.echo(f"ETag: {tag}", err=True)
        if output is not None or not _is_json(response):
            _copy(response, output or cast("BinaryIO", sys.stdout.buffer))
            return _Answer(None, is_live)
        job_path = response.getheader("location") or "" if response.status == 202 else ""
        return _Answer(read_json(response), is_live, job_path)


def _await_job(api: ApiClient, answer: _Answer) -> _Answer:
    """Wait for the job that the operation started, and return the result.

    Raises the error of the job, or Refused if the worker does not start the job.
    """
    path, document = answer.job_path, answer.document
    if not path:
        return answer
    reached_at = time.monotonic()
    deadline = reached_at + _QUEUE_SECONDS
    while document["state"] in ("queued", "running"):
        if document["state"] == "queued" and time.monotonic() > deadline:
            raise Refused(f"The worker does not start {path}.", remedy="The job stays queued. See ./admit status.")
        time.sleep(_POLL_SECONDS)
        try:
            document = api.get(path)
            reached_at = time.monotonic()
        except (ApiUnreachable, NothingRuns):
            # A restart of the API takes some seconds, and does not stop the job.
            if time.monotonic() > reached_at + _RESTART_SECONDS:
                raise
    if document["state"] == "cancelled":
        raise Refused("The job was cancelled.", place=path)
    if document.get("problem"):
        raise read_problem(document["problem"])
    return replace(answer, document=document.get("result") or document)


def _is_json(response: HTTPResponse) -> bool:
    kind = response.getheader("content-type") or "application/json"
    return kind.split(";")[0] == "application/json"


def _copy(response: HTTPResponse, output: BinaryIO) -> None:
    is_stream = (response.getheader("content-type") or "").startswith("text/event-stream")
    while chunk := (response.read1 if is_stream else response.read)(_CHUNK):
        output.write(chunk)
        output.flush()


def _fetch_items(
    operation: Operation, api: ApiClient, given: RequestArguments, page: dict[str, Any], *, limit: int | None = None
) -> list[Any]:
    """Yield the items of this page and the following pages, at most `limit`."""
    items, after = page["items"], page["next"]
    while after is not None and (limit is None or len(items) < limit):
        given.query["after"] = after
        given.query["limit"] = _MAX_PAGE if limit is None else min(limit - len(items), _MAX_PAGE)
        page = _call(operation, api, given).document
        items, after = items + page["items"], page["next"]
    if after is not None:
        click.echo(f"More: --after {after}", err=True)
    return cast("list[Any]", items)
