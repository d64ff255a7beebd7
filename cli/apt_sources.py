"""Derives the apt source of Debian's backports from the machine's apt sources, so that no mirror is hard-coded."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cli.errors import Refused

# Options of one-line sources that have another name as deb822 field (sources.list(5), "THE DEB AND DEB-SRC TYPES:
# OPTIONS").
_PLURALS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
_OWN_FIELDS = {"types", "uris", "suites", "components", "enabled", "x-repolib-name"}


@dataclass(frozen=True, slots=True)
class AptSource:
    """An apt source.

    `options` are the other deb822 fields of the source in order, such as Signed-By or Architectures.
    """

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()


def read_sources(etc_apt: Path) -> list[AptSource]:
    """Return the enabled binary sources in the order of apt: sources.list, then the files of sources.list.d by name."""
    files = [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*"))]
    sources: list[AptSource] = []
    for file in files:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        sources += parse_deb822(text) if file.suffix == ".sources" else parse_one_line(text)
    return sources


def parse_one_line(text: str) -> list[AptSource]:
    """Return the sources of a .list file, with lines "deb [ option=value ... ] uri suite component ..."."""
    sources = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<rest>[^#]*)(?:#.*)?", line)
        words = match["rest"].split() if match else []
        if not match or len(words) < 2:
            continue
        options = tuple(
            (_PLURALS.get(name, "-".join(part.capitalize() for part in name.split("-"))), value.replace(",", " "))
            for name, equals, value in (word.partition("=") for word in shlex.split(match["options"] or ""))
            if equals
        )
        sources.append(AptSource((words[0],), (words[1],), tuple(words[2:]), options))
    return sources


def parse_deb822(text: str) -> list[AptSource]:
    """Return the sources of a .sources file: stanzas of "Field: value".

    A line that starts with a blank continues a value.
    """
    sources = []
    for stanza in _stanzas(text):
        fields = {name.lower(): value for name, value in stanza}
        enabled = fields.get("enabled", "yes").strip().lower() not in ("no", "false", "without", "off", "disable")
        if not enabled or "deb" not in fields.get("types", "").split():
            continue
        sources.append(
            AptSource(
                tuple(fields.get("uris", "").split()),
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                tuple((name, value) for name, value in stanza if name.lower() not in _OWN_FIELDS),
            )
        )
    return sources


def _stanzas(text: str) -> Iterable[list[tuple[str, str]]]:
    stanza: list[tuple[str, str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza = []
        elif line[0] in " \t" and stanza:
            name, value = stanza[-1]
            stanza[-1] = (name, f"{value}\n{line}")
        else:
            name, _, value = line.partition(":")
            stanza.append((name.strip(), value.strip()))


def derive_backports(sources: Iterable[AptSource], codename: str) -> str | None:
    """Return a source for `<codename>-backports` as deb822 text; None if the machine already has this source.

    The text has the mirror, key and options of the machine's source of `codename`.
    """
    suite = f"{codename}-backports"
    known = list(sources)
    if any(suite in source.suites and "main" in source.components for source in known):
        return None
    for source in known:
        if codename in source.suites and "main" in source.components and source.uris:
            fields = [
                ("Types", "deb"),
                ("URIs", " ".join(source.uris)),
                ("Suites", suite),
                ("Components", "main"),
                *source.options,
            ]
            return "".join(f"{name}: {value}\n" for name, value in fields)
    raise Refused(
        f"Cannot derive an apt source for {suite}: no apt source of this machine has {codename} main.",
        place="/etc/apt",
        remedy=f"Add a source for {suite}, then run the command again.",
    )
