"""Configuration templates for network devices: one file per template in the folder `templates`.

A file has a TOML header, a line `+++`, and a Jinja2 text.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from nac.engine.vendors.catalogue import all_vendors

_FOLDER = Path(__file__).parent / "templates"
_SEPARATOR = "\n+++\n"

AccessKind = Literal["wired", "wireless", "both"]
SnippetKind = Literal["commands", "file", "steps"]
# How the device's configuration quotes values. "plain": not quoted, so a blank ends the value. "double" and "single":
# in such quotation marks.
Quoting = Literal["plain", "double", "single"]
Feature = Literal["dot1x", "mab", "accounting", "coa", "vlan"]
FEATURES: tuple[Feature, ...] = get_args(Feature)


class TemplatesDamaged(Exception):
    """Template files have mistakes. Each of the `mistakes` is a text that begins with the name of the file."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(mistakes))


@dataclass(frozen=True, slots=True)
class SnippetTemplate:
    id: str
    title: str
    # Vendor in nac.engine.vendors, which decides how Admit ends sessions on such a NAS.
    vendor: str
    access: AccessKind
    kind: SnippetKind
    versions: str
    features: tuple[Feature, ...]
    quoting: Quoting
    # Characters that begin a comment line; "" if the text is instructions and not a configuration.
    comment: str
    # Whether the device sends Message-Authenticator, and what to do if it does not.
    message_authenticator: str
    text: str


@cache
def load_templates() -> Mapping[str, SnippetTemplate]:
    """Return all templates by id. Raises TemplatesDamaged."""
    mistakes: list[str] = []
    found = {
        file.stem: _parse_template(file.stem, file.read_text(), mistakes) for file in sorted(_FOLDER.glob("*.txt"))
    }
    if mistakes:
        raise TemplatesDamaged(mistakes)
    return {name: template for name, template in found.items() if template is not None}


def _parse_template(name: str, content: str, mistakes: list[str]) -> SnippetTemplate | None:
    head, rule, text = content.partition(_SEPARATOR)
    try:
        written: dict[str, Any] = tomllib.loads(head)
    except tomllib.TOMLDecodeError as exc:
        mistakes.append(f"{name}: {exc}")
        return None
    if not rule:
        mistakes.append(f"{name}: missing line +++")
    known: dict[str, tuple[str, ...]] = {
        "vendor": tuple(all_vendors()),
        "access": get_args(AccessKind),
        "kind": get_args(SnippetKind),
        "quoting": get_args(Quoting),
    }
    for key, values in known.items():
        if written.get(key) not in values:
            mistakes.append(f"{name}: {key} must be one of {', '.join(values)}")
    if wrong := set(written.get("features", ())).difference(FEATURES):
        mistakes.append(f"{name}: unknown feature {', '.join(sorted(wrong))}")
    written["features"] = tuple(written.get("features", ()))
    try:
        return SnippetTemplate(id=name, text=text, **written)
    except TypeError as exc:
        mistakes.append(f"{name}: {exc}")
        return None
