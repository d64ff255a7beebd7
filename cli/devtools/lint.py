"""House rules that general linters do not check. `python -m cli.devtools.lint` runs the rules.

A line can break a rule if the line has the comment `# house: allow <rule> -- reason`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.devtools import lint_names, lint_text

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("nac", "pki", "radius", "api", "worker", "cli", "migrations", "loadtest")
LONGEST_FILE = 500
# In each folder of these packages, the name of a public class must be unique.
UNIQUE_CLASS_PACKAGES = ("nac", "pki", "radius", "api", "worker", "cli")
# Packages whose docstrings and comments are checked for plain English. For tests, no other house rules apply.
PLAIN_PACKAGES = ("api/", "cli/", "loadtest/", "migrations/", "nac/", "pki/", "radius/", "tests/", "worker/")
_CLASS_RULE = "class-name"
# Folders whose texts must suit every user interface.
_WITHOUT_INTERFACE = ("nac/", "pki/", "radius/", "worker/", "api/v1/")
_GENERATED_FOLDERS = {"__pycache__", "node_modules", "var"}

_ALLOW = re.compile(r"#\s*house: allow (?P<rule>[a-z-]+) -- \S")
_SQL_START = re.compile(
    r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE|COPY|WITH|SET|LOCK|NOTIFY)\s"
)
_SQL_REMEDY = "SQL built from strings; pass values as parameters, names with psycopg.sql"
_SQL_CALLS = {"execute", "executemany", "scalar", "scalars", "stream", "copy", "text", "exec_driver_sql"}
_CLOCK_CALLS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "localtime"),
    ("time", "gmtime"),
}
# The host names are split into labels, so that this file does not break the rule.
_REGISTRIES = {
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("jsdelivr", "net"),
    ("unpkg", "com"),
    ("deb", "debian", "org"),
    ("security", "debian", "org"),
    ("snapshot", "debian", "org"),
    ("ftp", "debian", "org"),
    ("archive", "ubuntu", "com"),
    ("docker", "io"),
    ("docker", "com"),
    ("ghcr", "io"),
    ("quay", "io"),
    ("gcr", "io"),
    ("networkradius", "com"),
}
_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


@dataclass(frozen=True, slots=True)
class SourceFile:
    # Path relative to the checkout, with slashes.
    path: str
    text: str
    tree: ast.Module


def commit(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Only session_scope commits, because a service that commits splits the caller's transaction."""
    if source.path.startswith("nac/kit/db/"):
        return
    for call in _calls(source.tree):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "commit":
            yield call.lineno, "only nac.kit.db.session_scope commits; open one at the edge instead"


def sql_string(source: SourceFile) -> Iterator[tuple[int, str]]:
    """SQL built from strings allows injection after one missing quote."""
    for call in _calls(source.tree):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _SQL_CALLS and call.args and _is_composed(call.args[0]):
            yield call.args[0].lineno, _SQL_REMEDY
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr) and _is_composed(node) and isinstance(node.values[0], ast.Constant):
            first = str(node.values[0].value)
            if _SQL_START.match(first):
                yield node.lineno, _SQL_REMEDY


def _is_composed(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(value, ast.FormattedValue) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        sides = (node.left, node.right)
        return any(_is_text(side) or _is_composed(side) for side in sides) and not all(map(_is_text, sides))
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and _is_text(node.func.value)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def clock(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Only one module reads the wall clock, so that tests can set any time."""
    if source.path == "nac/kit/clock.py":
        return
    for call in _calls(source.tree):
        match call.func:
            case ast.Attribute(attr=method, value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
                if (owner, method) in _CLOCK_CALLS:
                    yield call.lineno, f"{owner}.{method}() reads the wall clock; use nac.kit.clock"
            case _:
                continue


def engine_imports(source: SourceFile) -> Iterator[tuple[int, str]]:
    """The policy engine runs in radiusd, API and worker. These processes share only the standard library."""
    if not source.path.startswith("nac/engine/"):
        return
    for line, module in _imports(source.tree):
        # nac.kit.advice imports only the standard library, too.
        is_engine = module.startswith((".", "nac.engine.")) or module in ("nac.engine", "nac.kit.advice")
        if (not is_engine and module.partition(".")[0] not in sys.stdlib_module_names) or module.startswith(".."):
            yield line, f"nac.engine imports {module}; it may import only the standard library and nac.engine"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def long_file(source: SourceFile) -> Iterator[tuple[int, str]]:
    """A long file must be split."""
    lines = source.text.count("\n")
    if lines > LONGEST_FILE:
        yield lines, f"{lines} lines; split it below {LONGEST_FILE}"


def plain_english(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Readers must understand a docstring, comment, error or help at first reading."""
    if source.path.startswith(PLAIN_PACKAGES):
        yield from lint_text.check_code(lint_text.prose_lines(source.text, source.tree))
        # Strings of tests are input, and copies of texts that are checked where they are defined.
        if not source.path.startswith("tests/"):
            yield from lint_text.check_code(lint_text.string_sentences(source.tree))


def docstring_form(source: SourceFile) -> Iterator[tuple[int, str]]:
    """A docstring names its subject first and consists of sentences."""
    if source.path.startswith(PLAIN_PACKAGES):
        for line, docstring in lint_text.docstrings(source.tree):
            yield from ((line, what) for what in lint_text.docstring_mistakes(docstring))


def interface(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Domain code does not depend on a user interface.

    Advice in domain code names API operations, and each user interface translates these names.
    """
    if source.path.startswith(_WITHOUT_INTERFACE):
        for number, line in enumerate(source.text.splitlines(), start=1):
            if "./admit" in line:
                yield number, "names a command; name the operation of the API with nac.kit.advice"


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


Rule = Callable[[SourceFile], Iterator[tuple[int, str]]]
TEXT_RULES: dict[str, Rule] = {"plain-english": plain_english, "docstring-form": docstring_form}
RULES: dict[str, Rule] = TEXT_RULES | {
    "commit": commit,
    "sql-string": sql_string,
    "clock": clock,
    "engine-imports": engine_imports,
    "long-file": long_file,
    "interface": interface,
}


def check_python(path: str, text: str) -> list[Finding]:
    """Return the findings in a Python file of the project; `path` is relative to the checkout."""
    return _check_source(parse_source(path, text))


def parse_source(path: str, text: str) -> SourceFile:
    return SourceFile(path, text, ast.parse(text, path))


def _check_source(source: SourceFile) -> list[Finding]:
    allowed = _allowed_lines(source)
    rules = TEXT_RULES if source.path.startswith("tests/") else RULES
    return sorted(
        {
            Finding(source.path, line, name, what)
            for name, rule in rules.items()
            for line, what in rule(source)
            if (line, name) not in allowed
        }
    )


def _allowed_lines(source: SourceFile) -> set[tuple[int, str]]:
    return {
        (number, match["rule"])
        for number, line in enumerate(source.text.splitlines(), start=1)
        for match in _ALLOW.finditer(line)
    }


def check_class_names(sources: Iterable[SourceFile]) -> list[Finding]:
    """Return public classes that share a name within one package, each with the files of the other classes of that
    name.

    A package is a folder such as nac/policies or api/v1 with its subfolders, or the files directly in cli.
    """
    places: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for source in sources:
        folders = source.path.split("/")[:-1][:2]
        if folders[0] not in UNIQUE_CLASS_PACKAGES:
            continue
        allowed = _allowed_lines(source)
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and (node.lineno, _CLASS_RULE) not in allowed:
                places["/".join(folders), node.name].append((source.path, node.lineno))
    return [
        Finding(*place, _CLASS_RULE, f"{name} is also a class at {others}; rename one")
        for (_, name), same in places.items()
        for place in same
        if (others := ", ".join(f"{path}:{line}" for path, line in same if (path, line) != place))
    ]


def check_registry_hosts(path: str, text: str) -> list[Finding]:
    """Return the lines that contain a host of a package registry.

    Package sources are a setting of the machine, so that people can use a mirror. This rule covers every tracked file.
    """
    return [
        Finding(path, number, "registry-host", f"contains {host}; package sources are a setting of the machine")
        for number, line in enumerate(text.splitlines(), start=1)
        for host in _HOST.findall(line)
        if _is_registry(host)
    ]


def check_document(path: str, text: str) -> list[Finding]:
    return [Finding(path, line, "plain-english", what) for line, what in lint_text.check_document(text)]


def _is_registry(host: str) -> bool:
    labels = tuple(host.lower().split("."))
    return any(labels[-size:] in _REGISTRIES for size in (2, 3))


def check_repository(root: Path) -> list[Finding]:
    findings: list[Finding] = []
    sources: list[SourceFile] = []
    for file in _files(root):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            # Binary files, such as images, are not checked.
            continue
        path = file.relative_to(root).as_posix()
        findings += check_registry_hosts(path, text)
        if file.suffix in (".md", ".py", ".sql"):
            named = lint_names.check_names(root, path, text)
            findings += [Finding(path, line, "stale-name", what) for line, what in named]
        if file.suffix == ".md":
            findings += check_document(path, text)
        if file.suffix == ".py" and path.partition("/")[0] in (*PACKAGES, "tests"):
            sources.append(parse_source(path, text))
    for source in sources:
        findings += _check_source(source)
    return sorted(findings + check_class_names(sources))


def _files(folder: Path) -> Iterator[Path]:
    """Return the source files, without environments, caches, data of an installation or repository metadata."""
    for entry in folder.iterdir():
        made = (
            entry.name in _GENERATED_FOLDERS
            or entry.suffix == ".egg-info"
            or (entry.name[0] == "." and entry.name != ".ci")
        )
        if entry.is_symlink() or (made and entry.is_dir()):
            continue
        if entry.is_dir():
            yield from _files(entry)
        else:
            yield entry


def main() -> int:
    findings = check_repository(CHECKOUT)
    for finding in findings:
        print(finding)
    print(f"house rules: {len(findings)} findings" if findings else "house rules: kept")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
