"""The file `var/admit.env` with lines KEY=value. `up` writes this file, and all other commands read it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from cli.errors import Refused, require_utf8
from nac.kit.private_files import write_private

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def parse(text: str, *, place: str) -> dict[str, str]:
    """Return the values by name. Ignores blank lines and comments (#). Raises Refused at the first invalid line."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise Refused(f"Invalid line {line!r}.", place=f"{place}:{number}", remedy="Use KEY=value.")
        if name in values:
            raise Refused(f"{name} is set twice.", place=f"{place}:{number}", remedy="Delete one of the lines.")
        values[name] = value
    return values


def read(path: Path) -> dict[str, str]:
    """Return the values of the file; empty if the file does not exist."""
    try:
        with require_utf8(str(path)):
            text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except PermissionError as exc:
        raise Refused(f"No permission to read {path}.", remedy="Use the account that ran './admit up'.") from exc
    return parse(text, place=str(path))


def write(path: Path, values: Mapping[str, str]) -> None:
    lines = [f"{name}={value}\n" for name, value in sorted(values.items())]
    write_private(path, "# Written by ./admit up, which keeps your changes of values.\n" + "".join(lines))


def with_process_environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return `values`, overridden by the ADMIT_* environment variables of the caller."""
    return dict(values) | {name: value for name, value in os.environ.items() if name.startswith("ADMIT_")}
