"""Each house rule has a violation and a near miss."""

from pathlib import Path

import pytest

from cli.devtools.lint import (
    CHECKOUT,
    check_class_names,
    check_document,
    check_python,
    check_registry_hosts,
    check_repository,
    parse_source,
)
from cli.devtools.lint_names import check_names

HITS = {
    "commit": ("nac/tenancy/tenants/service.py", "def f(session):\n    session.commit()\n"),
    "commit in the API": ("api/v1/x.py", "def f(db):\n    db.session.commit()\n"),
    "sql-string": ("nac/x.py", "def f(c, t):\n    c.execute(f'SELECT * FROM {t}')\n"),
    "sql-string by %": ("nac/x.py", "def f(c, t):\n    c.execute('DELETE FROM %s' % t)\n"),
    "sql-string by +": ("nac/x.py", "def f(c, t):\n    c.execute(text('SELECT 1 FROM ' + t + ' x'))\n"),
    "sql-string by format": ("nac/x.py", "def f(c, t):\n    c.execute('TABLE {}'.format(t))\n"),
    "sql-string before the call": ("nac/x.py", "def f(c, t):\n    q = f'INSERT INTO {t} VALUES (1)'\n    c.run(q)\n"),
    "clock": ("nac/x.py", "from datetime import datetime, UTC\nx = datetime.now(UTC)\n"),
    "clock through the module": ("radius/agent/x.py", "import datetime\nx = datetime.datetime.utcnow()\n"),
    "clock of time": ("radius/module/x.py", "import time\nx = time.time()\n"),
    "engine-imports": ("nac/engine/x.py", "import msgspec\n"),
    "engine-imports of a neighbour": ("nac/engine/x.py", "from nac.kit.mac import normalise_mac\n"),
    "engine-imports by a relative path": ("nac/engine/x.py", "from ..mac import normalise_mac\n"),
    "engine-imports inside a function": ("nac/engine/x.py", "def f():\n    import sqlalchemy.orm\n"),
    "long-file": ("pki/x.py", "x = 1\n" * 501),
    "interface": ("nac/x.py", "REMEDY = 'List sites: ./admit site list'\n"),
    "interface in a docstring": ("api/v1/x.py", '"""Also `./admit site list`."""\n'),
    "plain-english in a docstring": ("api/x.py", '"""Requests that somebody sent."""\n'),
    "plain-english in a comment": ("api/x.py", "x = 1  # The limit is set anew.\n"),
    "plain-english in migrations": ("migrations/x.py", "# The lock that the step asked for.\n"),
    "docstring-form of a pronoun": ("api/x.py", 'def f():\n    """What a caller may do."""\n'),
    "docstring-form of a lower-case word": ("radius/x.py", '"""radiusd and its parts."""\n'),
    "docstring-form of a quote": ("cli/x.py", 'class C:\n    """ "permit" or "reject"."""\n'),
    "docstring-form without a period": ("pki/x.py", '"""A key\n\nIt has a name.\n"""\n'),
    "docstring-form of a period inside a word": ("worker/x.py", '"""Reader of version 3.2"""\n'),
}
MISSES = {
    "commit in session_scope's own package": ("nac/kit/db/session.py", "def f(session):\n    session.commit()\n"),
    "a function that is named so": ("nac/x.py", "def commit(): ...\ncommit()\n"),
    "parameters": ("nac/x.py", "def f(c, t):\n    c.execute('SELECT * FROM t WHERE x = %s', (t,))\n"),
    "adjacent literals": (
        "nac/x.py",
        "def f(c):\n    c.execute('SELECT 1 ' 'FROM t')\n    c.execute('SELECT 1 ' + 'x')\n",
    ),
    "an f-string for people": ("nac/x.py", "def f(t):\n    return f'Select a tenant: {t}. Update it.'\n"),
    "psycopg.sql": ("nac/x.py", "def f(c, t):\n    c.execute(sql.SQL('DELETE FROM {}').format(sql.Identifier(t)))\n"),
    "monotonic time": ("nac/x.py", "import time\nx = time.monotonic()\ntime.sleep(1)\n"),
    "the clock's own file": ("nac/kit/clock.py", "from datetime import datetime, UTC\nx = datetime.now(UTC)\n"),
    "standard library in the engine": (
        "nac/engine/x.py",
        "import re\nfrom nac.engine.policy import Policy\nfrom . import y\n",
    ),
    "a file at the limit": ("pki/x.py", "x = 1\n" * 500),
    "a command in the command line": ("cli/x.py", "REMEDY = 'Start it: ./admit up'\n"),
    "a docstring that begins with a name": ("worker/x.py", '"""`radiusd` and its parts."""\n'),
    "a docstring that begins with a number": ("pki/x.py", '"""32 random bytes."""\n'),
    "a docstring of a boolean": ("cli/x.py", 'def f():\n    """Whether it runs."""\n'),
    "a docstring that begins with a pronoun's letters": ("cli/x.py", '"""Offset of a page (RFC 1)."""\n'),
    "a docstring before a list": ("radius/x.py", '"""Kinds of requests:\n\n* one\n"""\n'),
    "a docstring with a command": ("cli/x.py", '"""Admit is not running. Start it: ./admit up"""\n'),
    "plain English": ("api/x.py", 'def f():\n    """Return the permissions of the caller. The key is `anew`."""\n'),
}


@pytest.mark.parametrize("name", HITS)
def test_violation_is_reported_with_its_rule(name: str):
    path, text = HITS[name]
    findings = check_python(path, text)
    assert [finding.rule for finding in findings] == [name.split()[0]]
    assert findings[0].path == path


@pytest.mark.parametrize("name", MISSES)
def test_near_miss_is_not_reported(name: str):
    assert check_python(*MISSES[name]) == []


CLASS = "import x\nclass Rule: ...\n"
ONE_FOLDER = ("nac/policies/a.py", "nac/policies/b.py")


def find_duplicates(paths: tuple[str, ...], text: str) -> list[tuple[str, int, str, str]]:
    findings = check_class_names([parse_source(path, text) for path in paths])
    return [(finding.path, finding.line, finding.rule, finding.what) for finding in findings]


@pytest.mark.parametrize(
    ("one", "other"),
    [ONE_FOLDER, ("nac/policies/drafts/a.py", "nac/policies/rules/b.py"), ("cli/a.py", "cli/b.py")],
)
def test_duplicate_class_names_both_places(one: str, other: str):
    assert find_duplicates((one, other), CLASS) == [
        (one, 2, "class-name", f"Rule is also a class at {other}:2; rename one"),
        (other, 2, "class-name", f"Rule is also a class at {one}:2; rename one"),
    ]


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        (("nac/policies/a.py", "nac/pools/a.py"), CLASS),
        (("cli/a.py", "cli/remote/a.py"), CLASS),
        (("tests/a.py", "tests/b.py"), CLASS),
        (ONE_FOLDER, "class _Rule: ...\n"),
        (ONE_FOLDER, "def f():\n    class Rule: ...\n"),
        (ONE_FOLDER, "class Rule: ...  # house: allow class-name -- a reason\n"),
    ],
)
def test_class_of_another_package_or_scope_is_accepted(paths: tuple[str, ...], text: str):
    assert find_duplicates(paths, text) == []


def test_duplicate_class_is_found_in_a_repository(tmp_path: Path):
    for path in ("radius/agent/a.py", "radius/agent/pools/b.py"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(CLASS)
    findings = check_repository(tmp_path)
    assert [(finding.path, finding.rule) for finding in findings] == [
        ("radius/agent/a.py", "class-name"),
        ("radius/agent/pools/b.py", "class-name"),
    ]


@pytest.mark.parametrize(
    ("escape", "count"),
    [
        ("# house: allow commit -- a test of the escape", 0),
        ("# house: allow commit", 1),
        ("# house: allow commit -- ", 1),
        ("# house: allow clock -- wrong rule", 1),
    ],
)
def test_suppression_needs_the_rule_and_a_reason(escape: str, count: int):
    assert len(check_python("nac/x.py", f"session.commit()  {escape}\n")) == count


@pytest.mark.parametrize(
    "labels", [("files", "pythonhosted", "org"), ("pypi", "org"), ("deb", "debian", "org"), ("ghcr", "io")]
)
def test_registry_host_is_reported_in_any_file(labels: tuple[str, ...]):
    (finding,) = check_registry_hosts("docs/x.md", f"nothing\nsee https://{'.'.join(labels)}/simple\n")
    assert (finding.rule, finding.line) == ("registry-host", 2)


@pytest.mark.parametrize("text", ["https://www.debian.org/", "mirror.example", "numpy.org", "1.2.3.4", "a.pypi.orgs"])
def test_other_hosts_are_not_reported(text: str):
    assert check_registry_hosts("README.md", text) == []


def test_generated_files_are_not_checked(tmp_path: Path):
    for folder in ("nac", ".venv", "tests", "nac/__pycache__", "var/demo"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_text("session.commit()\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
    assert [(finding.path, finding.rule) for finding in check_repository(tmp_path)] == [("nac/x.py", "commit")]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Whoever signs in.", ["plain-english"]),
        ("a " * 50 + "b", ["plain-english"]),
        ("| it | is told by the cell |", ["plain-english"]),
        ("```\nwhoever\n```", []),
        ("    anew", []),
        ("The option `anew`.", []),
        ("| " + "a " * 60 + "|", []),
        ("See https://x.example/" + "a" * 99, []),
    ],
)
def test_unclear_document_is_found(text: str, rules: list[str]):
    assert [finding.rule for finding in check_document("docs/x.md", text)] == rules


def test_unclear_sentence_in_a_string_is_found_outside_tests():
    text = 'message = "Whoever signs in."\nkey = "whoever"\n'
    assert [finding.rule for finding in check_python("api/a.py", text)] == ["plain-english"]
    assert check_python("tests/a.py", text) == []


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "docs/a.md",
            "Read `nac/kit/gone.py`, `nac/kit/clock.py` and docs/gone.md.",
            ["nac/kit/gone.py", "docs/gone.md"],
        ),
        ("migrations/sql/a.sql", "-- See nac.kit.clock.utc_now and nac.kit.clock.gone.", ["nac.kit.clock.gone"]),
        (
            "api/a.py",
            '"""Text of tests/gone.py."""\nPATH = "tests/gone.py"  # nac/gone\n',
            ["tests/gone.py", "nac/gone"],
        ),
        ("docs/a.md", "radius.agent.coa, radius.User-Name, nac/kit, nac/models/<noun>.py, nac/*, a/nac/gone.py", []),
        ("loadtest/results/a.md", "nac/gone.py", []),
    ],
)
def test_stale_names_in_text_are_found(path: str, text: str, names: list[str]):
    found = [what for _, what in check_names(CHECKOUT, path, text)]
    assert found == [f"names {name}, which does not exist" for name in names]
