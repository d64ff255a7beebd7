"""Advice of the domain names operations of the API. Each one, as a command, exists with its options."""

import ast
import copy
import re
import shlex
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path

import click
import pytest

from cli import openapi
from cli.main import admit
from cli.operation_commands import COMMANDS, render_advice, render_alarm, render_step
from cli.remote.description import Operation, hyphenate, read_operations
from nac.kit.advice import Advice, NextStep

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def operations() -> Mapping[str, Operation]:
    return read_operations(openapi.description())


def _parse_domain() -> Iterator[ast.AST]:
    files = [file for folder in ("nac", "radius", "worker") for file in (ROOT / folder).rglob("*.py")]
    for file in [*files, ROOT / "cli/operation_commands.py"]:
        if "nac.kit.advice" in (text := file.read_text()):
            yield from ast.walk(ast.parse(text))


def _read_operation_ids() -> set[str]:
    calls = [node for node in _parse_domain() if isinstance(node, ast.Call)]
    places: list[ast.AST] = [call for call in calls if getattr(call.func, "id", "") in ("Advice", "NextStep")]
    places += [each.value for call in calls for each in call.keywords if str(each.arg).endswith("_operation")]
    texts = {node.value for place in places for node in ast.walk(place) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(?:[A-Z][a-z0-9]*)+", text)}


def _read_steps() -> list[NextStep]:
    """Every step of the domain, with its literal parameters."""
    found = []
    for node in _parse_domain():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NextStep":
            named = next((each.value for each in node.args if isinstance(each, ast.Constant)), "")
            given = [each for each in (*node.args, *(k.value for k in node.keywords)) if isinstance(each, ast.Dict)]
            keys = [key for each in given for key in zip(each.keys, each.values, strict=True)]
            parameters = {
                key.value: value.value if isinstance(value, ast.Constant) else "one"
                for key, value in keys
                if isinstance(key, ast.Constant)
            }
            found.append(NextStep(named, parameters))
    return found


def _require_command(line: str) -> None:
    words = shlex.split(line.removeprefix("./admit "))
    command: click.Command = admit
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, line
        command, words = found, words[1:]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known, line
    arguments = [each for each in command.params if isinstance(each, click.Argument) and each.required]
    assert len(arguments) <= sum(not word.startswith("--") for word in words), line


def test_operations_and_parameters_of_the_domain_exist(operations: Mapping[str, Operation]) -> None:
    named = _read_operation_ids()
    assert len(named) > 50
    assert {operation for operation in named if hyphenate(operation) not in operations} == set()
    for step in filter(attrgetter("operation_id"), _read_steps()):
        known = {value.name for value in operations[hyphenate(step.operation_id)].values}
        assert step.parameters.keys() <= known, step


def test_steps_of_the_domain_are_commands() -> None:
    lines = [render_step(step) for step in (*_read_steps(), *map(NextStep, _read_operation_ids())) if step.operation_id]
    short = [line for line in lines if not line.startswith("./admit api ")]
    assert len(short) > 60
    for line in short:
        _require_command(line)


def test_commands_of_the_table_exist_and_are_named(operations: Mapping[str, Operation]) -> None:
    for key, usage in COMMANDS.items():
        operation, _, parameter = key.partition(".")
        if operation:
            _require_command(usage)
            known = {value.name for value in operations[hyphenate(operation)].values}
            assert not parameter or parameter.partition("=")[0] in known, key
    assert {key.partition(".")[0] for key in COMMANDS} - {""} - _read_operation_ids() == set()


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (NextStep("listEndpoints"), "./admit endpoint list"),
        (NextStep("getUser", {"user": "O'Hara; rm"}), """./admit user show 'O'"'"'Hara; rm'"""),
        (NextStep("getUser", {"user": ""}), "./admit user show USER"),
        (NextStep("updateTenant", {"tls_versions": ""}), "./admit tenant set TENANT --tls-versions TLS_VERSIONS"),
        (NextStep("updateNas", {"mab_by_name": "true"}), "./admit nas set NAS --mab-by-name"),
        (NextStep("classifyEndpoints", {"action": "approve"}), "./admit endpoint classify MAC --approve"),
        (
            NextStep("revealRadiusSecret", {"nas": "sw 1", "next": "true"}),
            "./admit secret-rotation reveal --nas 'sw 1'",
        ),
        # From commands.toml, and without a short command.
        (NextStep("pauseFeed", {"feed": "siem"}), "./admit feed pause siem"),
        (NextStep("getDeviceSetUp"), "./admit api get-device-set-up"),
        (NextStep(parameters={"make_groups": "true"}), "--make-groups"),
        (NextStep(parameters={"existing": "update"}), "--existing update or --update"),
        (NextStep(parameters={"existing": "keep"}), "--existing keep"),
    ],
)
def test_step_is_rendered_as_a_command(step: NextStep, line: str) -> None:
    assert render_step(step) == line


def test_advice_names_operations_and_renders_commands() -> None:
    advice = Advice("Create it first.", "createSite", NextStep("getUser", {"user": "anna"}))
    assert advice == "Create it first: createSite, getUser (user=anna)."
    assert (copy.deepcopy(advice), copy.deepcopy(advice).steps) == (advice, advice.steps)
    assert render_advice(advice) == "Create it first: ./admit site add SITE, ./admit user show anna."
    # Other text stays unchanged, such as a name that a person chose.
    assert render_advice("Unknown group 'listEndpoints'.") == "Unknown group 'listEndpoints'."


STEPS = [{"operation_id": "finishSecretRotation", "parameters": {"tenant": "alpha", "nas": "sw 1"}}]


@pytest.mark.parametrize(
    ("alarm", "detail"),
    [
        # Of a cell, of the platform, and without a command.
        (
            {"code": "secret-rotation-ends:7", "detail": "List them, then finish", "since": "", "next_steps": STEPS},
            "List them, then finish: ./admit secret-rotation finish --tenant alpha --nas 'sw 1'",
        ),
        (
            {"code": "database-nearly-full", "detail": "The database is nearly full."},
            "The database is nearly full: ./admit retention limits set.",
        ),
        ({"code": "pools", "detail": "None."}, "None."),
    ],
)
def test_alarm_is_rendered_with_its_command(alarm: dict[str, object], detail: str) -> None:
    shown = {name: value for name, value in alarm.items() if name != "next_steps"}
    assert render_alarm(alarm) == shown | {"detail": detail}
