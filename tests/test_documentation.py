"""What the documents show works: every example in JSON is valid, every command line has a command that takes it."""

import json
import re
import shlex
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest
from jsonschema import Draft202012Validator

from cli.layout import CHECKOUT
from cli.main import admit
from cli.openapi import description
from cli.remote.description import Operations
from nac.endpoints.rules import compile_rule
from nac.engine import compile_policy, read_request
from nac.events.document import from_json, to_json
from nac.identities.settings import read_settings
from nac.policies.packet_facts import use_rule_names
from nac.policies.policy_tests import run_tests
from nac.policies.schema import policy_schema
from nac.scep.webhook_client import WebhookEnrolment, WebhookResponse
from nac.templates.document import TemplateDocument, list_parts, parse_template
from tests.factories.dictionary import installed_dictionary

PAGES = [
    CHECKOUT / "README.md",
    *sorted(page for page in (CHECKOUT / "docs").rglob("*.md") if page.parent.name != "adr"),
]
# Fenced, or indented by four.
BLOCK = re.compile(r"^```\w*\n(.*?)^```$|((?:^ {4}.*\n(?:^\n(?= {4}))?)+)", re.MULTILINE | re.DOTALL)
SECTIONS = {"conditions", "profiles", "pinned_denies", "rules", "fallback", "tests"}


def blocks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [re.sub(r"^ {4}", "", fenced or indented, flags=re.MULTILINE) for fenced, indented in BLOCK.findall(text)]


def examples(page: Path) -> list[dict[str, object]]:
    """Whole documents, and sections of a policy that stand by themselves."""
    texts = [part for block in blocks(page) for part in block.split("\n\n") if part.lstrip()[:1] in ("{", '"')]
    return [json.loads(text if text.lstrip().startswith("{") else f"{{{text}}}") for text in texts]


EXAMPLES = [
    pytest.param(page, example, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, example in enumerate(examples(page))
]
COMMANDS = [
    pytest.param(line, id=f"{page.stem}-{line[:60].strip()}")
    for page in PAGES
    for block in blocks(page)
    for line in block.splitlines()
    if line.startswith("./admit ")
]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_example_is_valid(page, example):
    first = next(iter(example))
    if example.keys() <= set(TemplateDocument.__struct_fields__):
        assert list_parts(parse_template(example))
    elif example.keys() <= SECTIONS:
        # Sections by themselves speak of the example of their page.
        whole = next((each for each in examples(page) if "rules" in each), {}) | example
        assert [error.message for error in Draft202012Validator(policy_schema()).iter_errors(whole)] == []
        policy = compile_policy(whole, replies=installed_dictionary())
        assert [str(result) for result in run_tests(policy, whole, {}) if not result.passed] == []
    elif first in ("all", "any", "not", "attribute"):
        compile_rule(example)
    elif first in ("urls", "issuer"):
        read_settings("ldap" if first == "urls" else "oidc", example)
    elif first in ("error", "valid"):
        assert example.keys() <= {"error", "place", "message", "remedy", "mistakes", "valid"}
    elif first == "@timestamp":
        # What is left out on the way back was no field.
        assert json.loads(to_json(from_json(json.dumps(example)))) == example
    elif first == "decision":
        assert msgspec.convert(example, WebhookResponse).decision == example["decision"]
    elif "event" in example:
        assert WebhookEnrolment("", "", b"", "").members("").keys() < example.keys()
    else:
        assert read_request(use_rule_names(example), at=0).attributes


@cache
def described():
    return Operations(description())


@pytest.mark.parametrize("line", COMMANDS)
def test_command_line_is_taken(line, monkeypatch):
    monkeypatch.setattr("cli.commands.api._operations", lambda context: described())
    monkeypatch.setenv("ADMIT_API_URL", "http://127.0.0.1:9")
    _, *arguments = shlex.split(line, comments=True)
    context = click.Context(admit)
    while isinstance(context.command, click.Group):
        name, command, arguments = context.command.resolve_command(context, arguments)
        assert command is not None
        context = click.Context(command, parent=context, info_name=name, **command.context_settings)
    given, rest, _ = context.command.make_parser(context).parse_args(list(arguments))
    assert rest == []
    missing = [each.name for each in context.command.params if each.required and not given.get(each.name)]
    assert missing == []


def test_examples_and_commands_are_found():
    assert len(EXAMPLES) > 8
    assert len(COMMANDS) > 40
