"""Checks that modules and files named in texts exist: in documents, docstrings, comments and SQL."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from cli.devtools.lint_text import prose_lines

# `nac.core.mail.service`, `nac.kit.errors.AdmitError`, `radius/agent/coa` or `docs/README.md`.
_NAME = re.compile(
    r"(?<![\w./@-])(?:"
    r"(?P<module>(?:nac|radius[./](?:agent|module|verifier))(?:[./][A-Za-z_0-9]+)+)"
    r"|(?P<file>(?:api|cli|docs|loadtest|migrations|nac|pki|radius|tests|worker)(?:/[\w-]+)+\.(?:py|md|sql|toml))"
    r")(?![\w/*<{$-]|\.gz)"
)
_SUFFIX = re.compile(r"\.(?:py|md|sql|toml)$")
# Results of benchmarks can contain names of earlier versions.
_EXEMPT = "loadtest/results/"


def check_names(root: Path, path: str, text: str) -> Iterator[tuple[int, str]]:
    """Return line number and message for each name that does not exist. `path` is relative to `root`, with slashes.

    Checks docstrings and comments of Python files, and all lines of other files.
    """
    if path.startswith(_EXEMPT):
        return
    lines = prose_lines(text, ast.parse(text)) if path.endswith(".py") else enumerate(text.splitlines(), start=1)
    for number, line in lines:
        for match in _NAME.finditer(line):
            if not (_file_exists(root, match[0]) if match["file"] else _module_exists(root, match[0])):
                yield number, f"names {match[0]}, which does not exist"


def _file_exists(root: Path, name: str) -> bool:
    return (root / name).exists()


def _module_exists(root: Path, name: str) -> bool:
    """Whether the name is a file, a folder, a module, or a name in a module."""
    if (root / name).exists() or (root / _SUFFIX.sub("", name)).exists():
        return True
    parts = name.replace("/", ".").split(".")
    for length in range(len(parts), 1, -1):
        module = root.joinpath(*parts[:length])
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if file.is_file():
                rest = parts[length:]
                return not rest or re.search(rf"\b{rest[0]}\b", file.read_text(encoding="utf-8")) is not None
    return False
