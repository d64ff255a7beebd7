"""The documents are correct:

JSON examples are valid, commands are accepted, links resolve, and the index is complete.
"""

import json
import re
import shlex
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import click
import msgspec
import pytest
from jsonschema import Draft202012Validator

from cli.devtools import settings_page
from cli.layout import CHECKOUT
from cli.main import admit
from cli.rights import RIGHTS
from nac.certificates.scep.webhook_client import WebhookEnrolment, WebhookResponse
from nac.engine import compile_policy, parse_request
from nac.inventory.endpoints.rule_conditions import compile_rule
from nac.inventory.identity_sources.settings import read_settings
from nac.kit.settings import variables
from nac.logs.events.document import from_json, to_json
from nac.onboarding.templates.document import TemplateDocument, list_parts, parse_template
from nac.policies.facts import use_rule_names
from nac.policies.policy_test_runner import run_tests
from nac.policies.schema import policy_schema
from tests.factories.dictionary import installed_dictionary

DOCS = CHECKOUT / "docs"
PAGES = [CHECKOUT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "adr")]
EVERY_PAGE = [
    *sorted(CHECKOUT.glob("*.md")),
    *sorted(page for folder in ("docs", "loadtest", "radius") for page in (CHECKOUT / folder).rglob("*.md")),
]
# Fenced blocks, and blocks with an indent of four.
BLOCK = re.compile(r"^```\w*\n(.*?)^```$|((?:^ {4}.*\n(?:^\n(?= {4}))?)+)", re.MULTILINE | re.DOTALL)
SECTIONS = {"conditions", "profiles", "pinned_denies", "rules", "fallback", "tests"}


def blocks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [re.sub(r"^ {4}", "", fenced or indented, flags=re.MULTILINE) for fenced, indented in BLOCK.findall(text)]


def examples(page: Path) -> list[dict[str, object]]:
    """Complete documents, and standalone sections of a policy."""
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
        # Standalone sections refer to the example of their page.
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
        # A key that the round trip loses was no field.
        assert json.loads(to_json(from_json(json.dumps(example)))) == example
    elif first == "decision":
        assert msgspec.convert(example, WebhookResponse).decision == example["decision"]
    elif "event" in example:
        assert WebhookEnrolment("", "", b"", "").members("").keys() < example.keys()
    else:
        assert parse_request(use_rule_names(example), at=0).attributes


@pytest.mark.parametrize("line", COMMANDS)
def test_command_line_is_accepted(line, monkeypatch):
    monkeypatch.delenv("ADMIT_API_URL", raising=False)
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


CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def targets(page: Path) -> list[tuple[Path, str]]:
    """The file and anchor of each link within the repository."""
    links = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    within = [link.partition("#") for link in links if not re.match(r"[a-z]+:", link)]
    return [(page.parent.joinpath(unquote(path)).resolve() if path else page, anchor) for path, _, anchor in within]


@cache
def anchors(page: Path) -> set[str]:
    """Anchors as on GitHub: lower case without punctuation, hyphens for spaces, and a number for each repetition."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: Counter[str] = Counter()
    result = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return result


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_resolve(page):
    broken = [
        f"{path}#{anchor}"
        for path, anchor in targets(page)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path))
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("index", "pages"),
    [
        (DOCS / "README.md", [page for page in DOCS.rglob("*.md") if page.parent.name != "adr"]),
        (DOCS / "adr" / "README.md", list((DOCS / "adr").glob("*.md"))),
    ],
    ids=["docs", "adr"],
)
def test_index_links_every_page(index, pages):
    linked = {path for path, _ in targets(index)} | {index}
    assert sorted(set(pages) - linked) == []


def test_index_of_docs_links_the_decision_records():
    assert DOCS / "adr" / "README.md" in {path for path, _ in targets(DOCS / "README.md")}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/internals/architecture.md", "docs/internals/how-to-add.md"])
def test_named_files_exist(page):
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:api|cli|docs|migrations|nac|pki|radius|tests|worker)/[\w./-]*)[`:]", text)
    assert len(named) > 2
    assert [path for path in named if not (CHECKOUT / path).exists()] == []


def test_names_in_how_to_add_exist_in_the_code():
    page = (DOCS / "internals" / "how-to-add.md").read_text(encoding="utf-8")
    quoted = re.findall(r"`(?:\w+\.)*(_?[A-Za-z]\w*_\w+|[A-Z]\w+)(?:\.(\w+))?`", page)
    names = {name for pair in quoted for name in pair if name}
    assert len(names) > 30
    files = [path for kind in ("py", "sql", "toml", "html") for path in CHECKOUT.glob(f"[a-z]*/**/*.{kind}")]
    files += (CHECKOUT / "portal" / "src").rglob("*.tsx")
    words = {word for path in files if path != Path(__file__) for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert names - words == set()


@pytest.mark.parametrize("page", sorted((DOCS / "internals").glob("*.md")), ids=lambda page: page.name)
def test_modules_named_without_a_folder_exist(page):
    named = set(re.findall(r"`((?:[a-z]\w*/)*\w+\.py)`", page.read_text(encoding="utf-8")))
    modules = {f"/{path.relative_to(CHECKOUT).as_posix()}" for path in CHECKOUT.glob("[a-z]*/**/*.py")}
    assert [name for name in named if not any(module.endswith(f"/{name}") for module in modules)] == []


def test_page_of_settings_has_every_setting_once():
    page, known = settings_page.PAGE, variables(Path("/x"))
    assert page.path.read_text(encoding="utf-8") == page.render(), f"nac/kit/settings.py has changed: {page.remedy}"
    assert Counter(chain(*settings_page.GROUPS.values())) == Counter(variable.name for variable in known)
    assert [variable.name for variable in known if not variable.about.endswith(".")] == []


def test_page_of_processes_has_the_rights_of_each():
    text = (DOCS / "internals" / "processes.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    told = {
        row[0].split("`")[1]: (row[1], set(re.findall(r"`(\w+)`", row[2])), bool(row[3]), row[4] == "yes")
        for row in rows
        if len(row) == 6
    }
    assert told == {
        name: (f"`{each.account}`", set(each.databases.values()), bool(each.redis), each.has_master_key)
        for name, each in RIGHTS.items()
    }


def test_no_process_has_the_owner_role_or_a_shared_user():
    assert not [name for name, each in RIGHTS.items() if "admit_owner" in each.databases.values()]
    assert len({each.account for each in RIGHTS.values()}) == len(RIGHTS)
