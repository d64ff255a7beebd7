"""Short commands: generated from the API's operations and the table in cli/remote/commands.toml."""

import json

import click
import pytest

from cli.main import SHORT_FORMS, admit
from cli.openapi import application, description
from cli.remote.aliases import COMMAND, TABLE, parse_alias, read_nouns
from cli.remote.catalog import load_catalog
from cli.remote.description import OperationInput, hyphenate
from cli.remote.value_types import choose_type, parse_changes, parse_member
from nac.kit.errors import InvalidInput
from tests.cli.conftest import Admit

MAC = "00:1b:a9:01:02:03"
OF = ("-t", "alpha")
NOUNS = read_nouns(TABLE.read_text())
COMMANDS = [(noun, verb) for noun, told in NOUNS.items() for verb in told.commands]
# Errors of a path or method that does not exist.
_UNROUTED = ("not-found", "method-not-allowed", "internal-server-error", "internal-error")


def find(noun: str, verb: str) -> tuple[click.Command, list[str]]:
    words = [*noun.split(), *([] if verb == COMMAND else [verb])]
    context, command = click.Context(admit), admit.get_command(click.Context(admit), words[0])
    for word in words[1:]:
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
    assert command is not None
    return command, words


def values_of(command: click.Command) -> list[str]:
    """A value for each argument and required option."""
    given: list[str] = []
    for parameter in command.params:
        if isinstance(parameter.type, click.File):
            value = "-"
        else:
            value = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "1"
        if isinstance(parameter, click.Argument):
            given.append(value)
        elif parameter.name == "path_tenant":
            given += ["--tenant", "alpha"]
        elif parameter.name == "path_msp" and parameter.required:
            given += ["--msp", "acme"]
        elif parameter.required:
            given += [parameter.opts[0], f"X={value}" if "=" in (parameter.help or "") else value]
        elif parameter.name == "yes":
            given.append("--yes")
    return given


def test_every_command_of_the_table_reaches_its_operation(alpha: Admit) -> None:
    for noun, verb in COMMANDS:
        command, words = find(noun, verb)
        result = alpha.run(*words, *values_of(command), "--json", text="x")
        assert result.exit_code in (0, 1, 2), (words, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.output)
        assert "Usage:" not in result.stderr, (words, result.output)
        told = json.loads(result.stdout) if result.exit_code and result.stdout else None
        assert not isinstance(told, dict) or told.get("error") not in _UNROUTED, (words, result.output)


def test_table_names_existing_operations_and_columns() -> None:
    operations = {hyphenate(each.operation_id) for each in application().routes if hasattr(each, "operation_id")}
    document = json.dumps(description())
    for told in NOUNS.values():
        for alias in told.commands.values():
            assert set(alias.operations) <= operations
            assert [name for name in alias.columns if f'"{name}"' not in document] == []


def test_options_and_arguments_become_the_body(alpha: Admit) -> None:
    alpha.json("endpoint-group", "add", "printers", *OF)
    options = ("--group", "printers", "--attribute", "floor=2", "--until", "2099-01-01")
    made = alpha.json("endpoint", "add", MAC, *OF, *options)
    assert (made["mac"], made["groups"], made["attributes"]) == (MAC, ["printers"], {"floor": "2"})
    assert made["valid_until"] == "2099-01-01T00:00:00Z"
    changed = alpha.json("endpoint", "set", MAC, *OF, "--no-until", "--no-groups", "--attribute", "floor=")
    assert (changed["valid_until"], changed["groups"], changed["attributes"]) == (None, [], {})
    assert alpha.json("endpoint", "set-groups", MAC, "printers", *OF)["groups"] == ["printers"]
    assert alpha.json("endpoint", "set-groups", MAC, *OF)["groups"] == []
    assert alpha.json("endpoint", "remove", MAC, *OF) == {"removed": MAC}


def test_list_returns_all_pages_or_the_limit(alpha: Admit) -> None:
    for number in range(3):
        alpha.json("user-group", "add", f"group-{number}", *OF)
    assert len(alpha.json("user-group", "list", *OF)) == 3
    short = alpha.run("user-group", "list", *OF, "--limit", "2")
    assert (short.stdout.count("group-"), "More: --after" in short.stderr) == (2, True)
    assert alpha.run("user", "list", *OF).stdout == "none\n"


def test_values_are_read_from_files_and_prompts(alpha: Admit) -> None:
    alpha.json("endpoint", "add", MAC, *OF)
    rule = json.dumps({"all": [{"attribute": "endpoint.vendor", "operator": "is", "value": "Brother"}]})
    alpha.json("endpoint-group", "add", "brother", *OF)
    assert alpha.run("endpoint-group", "set", "brother", *OF, "--rule", "-", "--json", text=rule).exit_code in (0, 2)
    secret = "correct horse battery"
    assert alpha.run("user", "add", "ann", *OF, text=f"{secret}\n{secret}\n").exit_code == 0
    assert alpha.run("user", "add", "bob", *OF, "--password-file", "-", text=f"{secret}\nmore\n").exit_code == 0
    assert alpha.run("user", "add", "eve", *OF, text=f"{secret}\nother\n").exit_code == 1
    assert [row["name"] for row in alpha.json("user", "list", *OF)] == ["ann", "bob"]
    csv = "mac,name\n00:00:5e:00:53:01,Printer\n"
    assert alpha.run("endpoint", "import", "-", *OF, text=csv).exit_code == 0
    assert "00:00:5e:00:53:01" in alpha.run("endpoint", "export", *OF).stdout


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("endpoint", "classify", MAC, "--approve", "--block"), "--block"),
        (("cert", "revoke", "0a", "--all-of-user", "ann"), "--all-of-user"),
        (("audit", "list", "--msp", "acme"), "--msp"),
        (("scep", "webhook", "--url", "https://mdm.example/scep", "--remove"), "--url"),
        (("user", "set", "ann"), ""),
        (("session", "change", "--session", "1", "--set", "x"), "--set"),
        (("endpoint", "posture", "set", MAC, "x"), "VALUES"),
        (("endpoint", "posture", "set", MAC, '{"a":' + "[" * 2000), "VALUES"),
        (("endpoint", "classify", MAC), "--approve/--block/--ignore"),
        (("endpoint", "add", MAC, "--until", "7d"), "--until"),
    ],
)
def test_contradictory_input_is_rejected(alpha: Admit, arguments: tuple[str, ...], place: str) -> None:
    refused = alpha.run(*arguments, *OF, "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["place"]) == (2, place), refused.output


def test_failed_check_exits_with_status_1(alpha: Admit) -> None:
    alpha.json("feed", "add-webhook", "siem", "https://siem.invalid/events", *OF)
    result = alpha.run("feed", "test", "siem", *OF, "--json")
    assert (result.exit_code, json.loads(result.stdout)["delivered"]) == (1, False)


def test_nested_results_are_readable(alpha: Admit) -> None:
    shown = alpha.run("tenant", "set", "alpha", "--replay-days", "0").stdout
    assert "listeners.auth_port" in shown
    assert "{" not in shown


def test_advice_names_commands(alpha: Admit) -> None:
    alpha.json("secret-rotation", "start", *OF, "--hours", "24")
    plan = alpha.json("secret-rotation", "show", *OF)["plan"]
    assert any("./admit secret-rotation" in step for step in plan)
    refused = alpha.run("endpoint", "add", MAC, *OF, "--group", "none")
    assert "./admit endpoint-group add" in refused.stderr


def test_actor_and_origin_are_in_the_audit_log(alpha: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    alpha.json("endpoint", "add", MAC, *OF)
    [entry] = alpha.json("audit", "list", *OF, "--limit", "1")
    assert (entry["actor"], entry["address"]) == ("cli:ann", "127.0.0.1")


@pytest.mark.parametrize(
    ("name", "kind", "text", "read"),
    [
        ("keep_seconds", "integer", "2d", 172_800),
        ("keep_seconds", "integer", "90", 90),
        ("bytes", "scalar", "20GB", 20 * 10**9),
        ("days", "scalar", "default", "default"),
        ("days", "scalar", "90", 90),
        pytest.param("days", "scalar", "[" * 2000, "[" * 2000, id="deep"),
        ("since", "time", "2026-01-31", "2026-01-31T00:00:00+00:00"),
    ],
)
def test_value_is_converted_for_the_api(name: str, kind: str, text: str, read: object) -> None:
    value = OperationInput(name, "body", kind)  # type: ignore[arg-type]
    converted = choose_type(value, with_ages=False).convert(text, None, None)
    assert parse_member(value, converted, option="--x") == read


def test_attributes_to_change_have_tags() -> None:
    assert parse_changes(["Session-Timeout=600", "Tunnel-Private-Group-Id:1=30"]) == [
        {"attribute": "Session-Timeout", "value": "600"},
        {"attribute": "Tunnel-Private-Group-Id", "value": "30", "tag": 1},
    ]
    with pytest.raises(InvalidInput, match="'x'"):
        parse_changes(["x"])


def test_words_of_a_line_are_read() -> None:
    alias = parse_alias("getA|getB name? files... @file --x=y --pem=ca@ --l=l, --no=k- --on=kind:1 mode=m ?ok !")
    assert alias.operations == ("get-a", "get-b")
    assert [(each.field, each.optional, each.repeated) for each in alias.arguments] == [
        ("name", True, False),
        ("files", False, True),
    ]
    assert (alias.body_file, alias.success_field, alias.is_confirmed) == ("file", "ok", True)
    assert (alias.options["y"], alias.files, alias.lists) == (("--x",), ("ca",), ("l",))
    assert (alias.removals, alias.flags, alias.fixed) == ({"k": "--no"}, {"kind": {"--on": 1}}, {"mode": "m"})


def test_job_without_a_worker_is_reported(alpha: Admit) -> None:
    late = alpha.run("tenant", "self-test", "alpha")
    assert late.exit_code == 1
    assert "The worker does not start" in late.stderr


@pytest.mark.parametrize(
    ("noun", "verb", "listed"),
    [
        ("endpoint", "create", "add"),
        ("tenant", "add", "create"),
        ("token", "add", "create"),
        ("pool", "update", "set"),
        ("retention", "update", "set"),
        ("retention hold", "delete", "remove"),
        ("site", "get", "show"),
    ],
)
def test_verb_and_its_short_form_are_one_command(noun: str, verb: str, listed: str) -> None:
    assert find(noun, verb)[0].name == listed


def test_no_noun_has_a_verb_and_its_short_form() -> None:
    for noun in NOUNS:
        verbs = load_catalog().verbs(noun)
        assert [verb for verb, short in SHORT_FORMS.items() if verb in verbs and short in verbs] == [], noun


def test_help_lists_commands_of_table_and_module() -> None:
    listed = Admit().run("retention", "--help").stdout
    assert all(verb in listed for verb in ("set", "hold", "limits", "notices"))
