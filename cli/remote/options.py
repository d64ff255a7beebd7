"""Builds the arguments and options of commands from the values of an operation."""

import json
import re
from collections.abc import Mapping
from typing import Any

import click

from cli.remote.aliases import Alias, Argument
from cli.remote.description import Operation, OperationInput
from cli.remote.value_types import choose_type

# Names of click parameters that every command has. No value of an API has such a name.
OUTPUT, BODY, AS_JSON = "output_file", "body_file", "as_json"
# Fields with secrets, which people type without echo or store in files.
SECRETS = ("secret", "client_secret", "password", "passphrase", "mab_password_text")
# If the user omits the value of a secret option, click prompts for the value.
_HIDDEN_PROMPT: Mapping[str, Any] = {
    "prompt": True,
    "prompt_required": False,
    "hide_input": True,
    "confirmation_prompt": True,
}
_MAPS = ("texts", "scalars")
_OWNERS = ("tenant", "msp")


def make_arguments(alias: Alias, values: Mapping[str, OperationInput]) -> list[click.Parameter]:
    made: list[click.Parameter] = [make_argument(each, values[each.field], alias) for each in alias.arguments]
    file = alias.body_file
    return [*made, click.Argument([BODY], type=click.File("rb"), metavar=file.upper())] if file else made


def make_argument(argument: Argument, value: OperationInput, alias: Alias) -> click.Argument:
    name = _name_argument(argument, value, alias)
    if argument.optional:
        name = f"[{name}]"
    return click.Argument(
        [name_variable(value)],
        metavar=f"{name}..." if argument.repeated else name,
        required=not (argument.optional or argument.repeated),
        nargs=-1 if argument.repeated else 1,
        type=click.File("rb") if argument.is_file else choose_type(value, with_ages=False),
    )


def _name_argument(argument: Argument, value: OperationInput, alias: Alias) -> str:
    lookup = alias.lookups.get(value.name)
    return "FILE" if argument.is_file else format_metavar(lookup.key if lookup else value.name.rpartition(".")[2])


def name_place(place: str, operation: Operation, alias: Alias) -> str:
    """Return the argument or option for the API's place of an error, such as `--user` for `user_name`.

    A place in a file, and an unknown place, stay unchanged.
    """
    field = place.partition("[")[0]
    value = next((value for value in operation.values if value.name == field), None)
    files = {*alias.files, *(each.field for each in alias.arguments if each.is_file)}
    return place if value is None or value.name in files else name_input(value, alias)


def name_input(value: OperationInput, alias: Alias) -> str:
    """Return the argument, the option or the flags that set the value."""
    arguments = {each.field: each for each in alias.arguments}
    if value.name in alias.flags:
        return "/".join(alias.flags[value.name])
    if value.name in _OWNERS and value.where == "path":
        return f"--{value.name}"
    if value.name in arguments or (value.where == "path" and value.name not in alias.options):
        return _name_argument(arguments.get(value.name, Argument(value.name)), value, alias)
    return alias.options.get(value.name, (f"--{value.option}",))[0]


def make_owner_option(name: str, *, required: bool) -> click.Option:
    flags = ["--tenant", "-t"] if name == "tenant" else ["--msp"]
    text = {"tenant": "Slug of the tenant.", "msp": "Slug of the MSP."}[name]
    return click.Option([*flags, f"path_{name}"], required=required, metavar="SLUG", help=text)


def make_short_options(value: OperationInput, alias: Alias, *, with_ages: bool, changes: bool) -> list[click.Parameter]:
    if value.name in alias.flags:
        return [_make_flag(value, name, sent) for name, sent in alias.flags[value.name].items()]
    names = list(alias.options.get(value.name, (f"--{value.option}",)))
    if value.kind == "boolean":
        pair = "/".join(names) if len(names) > 1 else f"{names[0]}/--no-{names[0][2:]}"
        return [click.Option([pair, name_variable(value)], default=None, help=value.help)]
    if value.name in alias.changes:
        text = "ATTRIBUTE[:TAG]=VALUE, such as Session-Timeout=600. Repeatable."
        return [click.Option([*names, name_variable(value)], multiple=True, required=True, help=text)]
    made: list[click.Parameter] = []
    if value.name in alias.files:
        made.append(click.Option([*names, name_variable(value)], type=click.File("rb"), help=f"File: {value.help}"))
    else:
        made.append(make_option(value, names, choose_type(value, with_ages=with_ages or value.name.endswith("since"))))
    if value.name in SECRETS:
        text = f"File whose first line is {names[0]}."
        file = [f"{names[0]}-file", f"{name_variable(value)}_file"]
        made.append(click.Option(file, type=click.File(encoding="utf-8"), help=text))
    if value.name in alias.removals:
        name = alias.removals[value.name]
        made.append(
            click.Option(
                [name, f"{name_variable(value)}_removed"], multiple=True, help=f"Remove a value of {names[0]}."
            )
        )
    if changes and value.where == "body" and (value.repeated or value.nullable):
        name = value.option if value.repeated or value.name in alias.files else names[0].lstrip("-")
        made.append(
            click.Option([f"--no-{name}", f"{name_variable(value)}_none"], is_flag=True, help=f"Remove {name}.")
        )
    return made


def make_call_flag(name: str, operation: Operation) -> click.Option:
    return click.Option([name, name_variable_of_flag(name)], is_flag=True, help=operation.help.splitlines()[0])


def _make_flag(value: OperationInput, name: str, sent: object) -> click.Parameter:
    return click.Option([name, name_flag(value, name)], is_flag=True, help=f"Set {value.option} to {json.dumps(sent)}.")


def make_option(value: OperationInput, names: list[str], kind: click.ParamType[Any]) -> click.Option:
    notes = [value.help]
    if value.kind == "json":
        notes.append("JSON.")
    if value.kind in _MAPS:
        notes.append("KEY=VALUE.")
    if value.repeated or value.kind in _MAPS:
        notes.append("Repeatable.")
    # The option is not required, because --body can contain the member, and another operation may not need a value of
    # the path.
    required = value.required and value.where not in ("body", "path")
    return click.Option(
        [*names, name_variable(value)],
        type=kind,
        multiple=value.repeated or value.kind in _MAPS,
        required=required,
        help=" ".join(filter(None, notes)),
        **(_HIDDEN_PROMPT if value.name in SECRETS else {}),
    )


def make_output_options(*, with_output: bool) -> list[click.Parameter]:
    output = click.Option(
        ["--output", "--out", OUTPUT], type=click.File("wb", lazy=True), help="Output file for the response."
    )
    as_json = click.Option(["--json", AS_JSON], is_flag=True, help="Print JSON.")
    return [output, as_json] if with_output else [as_json]


def format_metavar(name: str) -> str:
    return name.upper().replace("_", "-")


def name_variable(value: OperationInput) -> str:
    return f"{value.where}_{re.sub('[^a-z0-9]', '_', value.name.lower())}"


def name_variable_of_flag(name: str) -> str:
    return f"call_{name.strip('-').replace('-', '_')}"


def name_flag(value: OperationInput, name: str) -> str:
    return f"{name_variable(value)}_{name.strip('-').replace('-', '_')}"
