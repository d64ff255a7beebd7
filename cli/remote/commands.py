"""Commands for the operations of an API: path parameters as arguments, other values as options."""

import json
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import click
import httpx

from cli.output import show_list, show_one
from cli.remote.client import ApiClient, RequestArguments, read_json
from cli.remote.description import Operation, OperationInput
from nac.kit.errors import InvalidInput

_TYPES: dict[str, click.ParamType[Any]] = {"integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}
_CHUNK = 64 * 1024
# Parameter names of every operation, which no value of an API has.
_OUTPUT, _BODY, _ALL, _AS_JSON = "output_file", "body_file", "all_pages", "as_json"


def make_command(operation: Operation, api: ApiClient) -> click.Command:
    parameters: list[click.Parameter] = []
    for value in operation.values:
        if value.where == "path":
            parameters.append(click.Argument([_variable(value)], metavar=value.option.upper().replace("-", "_")))
        else:
            parameters.append(_option(value, operation))
    if operation.takes:
        text = 'File with the whole body; "-": standard input.'
        parameters.append(click.Option(["--body", _BODY], type=click.File("rb"), help=f"{text} {operation.takes}."))
    if operation.is_page:
        parameters.append(click.Option(["--all", _ALL], is_flag=True, help="Get all pages."))
    parameters.append(
        click.Option(["--output", _OUTPUT], type=click.File("wb", lazy=True), help="Output file for the response.")
    )
    parameters.append(click.Option(["--json", _AS_JSON], is_flag=True, help="Print JSON."))

    def run(**options: Any) -> None:  # noqa: ANN401 -- what the options give
        _run(operation, api, options)

    return click.Command(
        operation.name, callback=run, params=parameters, help=f"{operation.help}\n\n{operation.method} {operation.path}"
    )


def _variable(value: OperationInput) -> str:
    return f"{value.where}_{value.name.lower().replace('-', '_')}"


def _option(value: OperationInput, operation: Operation) -> click.Option:
    kind: click.ParamType[Any] = click.Choice(value.choices) if value.choices else _TYPES.get(value.kind, click.STRING)
    if value.nullable and value.where == "body":
        # One of the values is "null".
        kind = click.STRING
    notes = [value.help]
    if value.kind == "json":
        notes.append("JSON.")
    if value.repeated:
        notes.append("Repeatable.")
    # --body can also contain a required member.
    required = value.required and value.where != "body"
    return click.Option(
        [f"--{value.option}", _variable(value)],
        type=kind,
        multiple=value.repeated,
        required=required,
        help=" ".join(filter(None, notes)),
    )


def _run(operation: Operation, api: ApiClient, options: Mapping[str, Any]) -> None:
    arguments = _collect_arguments(operation, options)
    as_json = bool(options[_AS_JSON])
    with api.call(operation, arguments) as answer:
        _print_notes(answer)
        if (output := options.get(_OUTPUT)) is not None or not _is_json(answer):
            _copy(answer, cast("BinaryIO", output or sys.stdout.buffer))
            return
        document = read_json(answer)
    if operation.is_page and options.get(_ALL):
        document = _fetch_remaining_pages(operation, api, arguments, document)
    _show(operation, document, as_json=as_json)


def _collect_arguments(operation: Operation, options: Mapping[str, Any]) -> RequestArguments:
    arguments = RequestArguments()
    members: dict[str, Any] = {}
    for value in operation.values:
        option = options[_variable(value)]
        if option is None or option == ():
            continue
        match value.where:
            case "path":
                arguments.path[value.name] = str(option)
            case "query":
                arguments.query[value.name] = list(option) if value.repeated else _plain(option)
            case "header":
                arguments.headers[value.name] = str(option)
            case "body":
                members[value.name] = _parse_member(value, option)
    arguments.body = _body(operation, options.get(_BODY), members)
    if arguments.body is not None:
        arguments.headers["Content-Type"] = operation.takes
    return arguments


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _parse_member(value: OperationInput, option: Any) -> Any:  # noqa: ANN401 -- any JSON
    if value.repeated:
        return list(option)
    if value.nullable and option == "null":
        return None
    if value.kind == "text":
        return option
    if value.kind == "json" or isinstance(option, str):
        try:
            return json.loads(option)
        except ValueError as exc:
            raise InvalidInput(f"Invalid JSON: {exc}.", place=f"--{value.option}") from exc
    return option


def _body(operation: Operation, file: BinaryIO | None, members: dict[str, Any]) -> bytes | None:
    if not operation.takes:
        return None
    whole = file.read() if file is not None else None
    if not members and whole is not None:
        return whole
    if whole is None:
        return json.dumps(members).encode()
    try:
        document = json.loads(whole)
    except ValueError as exc:
        raise InvalidInput(f"Invalid JSON: {exc}.", place="--body") from exc
    if not isinstance(document, dict):
        raise InvalidInput(
            "The body is not a JSON object.", place="--body", remedy="Use an object, or omit the other options."
        )
    return json.dumps(document | members).encode()


def _is_json(answer: httpx.Response) -> bool:
    kind: str = answer.headers.get("content-type", "application/json")
    return kind.split(";")[0] == "application/json"


def _copy(answer: httpx.Response, output: BinaryIO) -> None:
    for chunk in answer.iter_bytes(_CHUNK):
        output.write(chunk)
        output.flush()


def _print_notes(answer: httpx.Response) -> None:
    if answer.headers.get("admit-live") == "false":
        click.echo("Note: The change is stored, but the tenant's cell has not confirmed it yet.", err=True)
    if (tag := answer.headers.get("etag")) is not None and answer.request.method == "GET":
        click.echo(f"ETag: {tag}", err=True)


def _fetch_remaining_pages(
    operation: Operation, api: ApiClient, arguments: RequestArguments, page: dict[str, Any]
) -> dict[str, Any]:
    items, after = page["items"], page["next"]
    while after is not None:
        arguments.query["after"] = after
        with api.call(operation, arguments) as answer:
            page = read_json(answer)
        items, after = items + page["items"], page["next"]
    return {"items": items, "next": None}


def _show(operation: Operation, document: Any, *, as_json: bool) -> None:  # noqa: ANN401 -- any document
    if document is None:
        if as_json:
            click.echo("{}")
        return
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    if operation.is_page:
        show_list(document["items"], as_json=False)
        if document["next"]:
            click.echo(f"More: --after {document['next']}", err=True)
    elif isinstance(document, list) and all(isinstance(each, dict) for each in document):
        show_list(document, as_json=False)
    elif isinstance(document, dict):
        show_one(document, as_json=False)
    else:
        click.echo(json.dumps(document))
