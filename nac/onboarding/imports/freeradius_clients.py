"""Import of FreeRADIUS `clients.conf`. Each `client` section with the address of a single host becomes a NAS.

The parser knows the syntax of FreeRADIUS configuration files (man unlang): sections in braces, `name = value`,
comments and quoted strings. The parser does not expand variables, and reads no other file.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nac.engine.vendors import known_vendor
from nac.kit.bulk_rows import InputLine
from nac.kit.validation import RADIUS_SECRET
from nac.onboarding.imports.document import MAX_LINES, ImportDocument, excerpt, unreadable_at

_MAX_DEPTH = 8
_MAX_TOKENS = 200_000
# Maximum number of syntax elements in a file, including blanks, comments and line ends.
_MAX_PARTS = 600_000
_MAX_WORDS = 1_000
_MAX_ITEMS = 100
_VARIABLE = re.compile(r"\$\w*\{")
_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r,;]+ | \\\r?\n | \#[^\n]*)
  | (?P<newline>\n[ \t\r\n]*+)
  | (?P<brace>[{}])
  | (?P<operator>:=|\+=|-=|=~|!~|==|!=|=)
  | "(?P<double>(?:[^"\\\n]++|\\.)*+)"
  | '(?P<single>(?:[^'\\\n]++|\\.)*+)'
  | (?P<word>(?:\$\w*+\{[^{}\s]*+\}|[^\s{}="'\#,;$]++|\$)++)
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}
_ADDRESSES = ("ipaddr", "ipv4addr", "ipv6addr")
# Subsections of a client that the import ignores without a note.
_IGNORED_SECTIONS = {"limit", "tls", "client"}
_KNOWN_SETTINGS = {
    *_ADDRESSES,
    *("secret", "shortname", "nas_type", "nastype", "netmask", "require_message_authenticator", "limit_proxy_state"),
    *("proto", "login", "password"),
}


@dataclass(slots=True)
class _Section:
    line: int
    words: list[str]
    items: dict[str, tuple[int, str]] = field(default_factory=dict)
    sections: list["_Section"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Token:
    line: int
    kind: str
    text: str


def read(text: str, document: ImportDocument) -> None:
    """Parse a file into `document`. Raises Unreadable for $INCLUDE and invalid syntax, such as an unclosed brace."""
    root = _parse(text)
    for line, _ in root.items.values():
        document.note(line, "was skipped: the setting is outside of a client")
    _read_sections(root.sections, document)


def _read_sections(sections: list[_Section], document: ImportDocument) -> None:
    for section in sections:
        kind = section.words[0]
        if kind == "client":
            _read_client(section, document)
        elif kind == "clients":
            # This section restricts its clients to one listener. In Admit, each tenant has its own listener.
            _read_sections(section.sections, document)
        else:
            document.note(section.line, f"section {excerpt(kind)} was skipped: only sections `client` are imported")


def _read_client(section: _Section, document: ImportDocument) -> None:
    name = section.words[1] if len(section.words) > 1 else ""
    items = {key: value for key, (_, value) in section.items.items()}
    shown_name = excerpt(items.get("shortname") or name)
    address = _parse_address(section, name, items)
    if isinstance(address, str):
        document.note(section.line, f"client {shown_name} was skipped: {address}")
        return
    values: dict[str, Any] = {"name": items.get("shortname") or name or str(address), "address": str(address)}
    secret = items.get("secret")
    if secret is not None and RADIUS_SECRET.fullmatch(secret) and not _VARIABLE.search(secret):
        values["secret"] = secret
    else:
        why = _secret_problem(secret)
        document.note(
            section.line,
            f"client {shown_name}: the secret {why}. Configure the tenant's secret on the device, or a"
            " stronger secret on the device and in Admit",
        )
    kind = items.get("nas_type", items.get("nastype", ""))
    if kind and known_vendor(kind) is not None:
        values["vendor"] = kind
    elif kind not in ("", "other"):
        document.note(section.line, f"client {shown_name}: unknown vendor in nas_type: {excerpt(kind)}")
    signed = items.get("require_message_authenticator", "yes").casefold()
    if signed in ("no", "false", "auto"):
        document.note(
            section.line,
            f"client {shown_name} did not require Message-Authenticator; Admit requires it unless you exempt the NAS",
        )
    for key in sorted(items.keys() - _KNOWN_SETTINGS):
        document.note(section.items[key][0], f"client {shown_name}: {excerpt(key)} was skipped")
    for inner in section.sections:
        if inner.words[0] not in _IGNORED_SECTIONS:
            document.note(inner.line, f"client {shown_name}: section {excerpt(inner.words[0])} was skipped")
    document.nases.append(InputLine(section.line, values))


def _secret_problem(secret: str | None) -> str:
    if not secret:
        return "is missing"
    if _VARIABLE.search(secret):
        return "is a variable; variables are not expanded"
    return "is too short, or has characters that some devices do not accept"


def _parse_address(
    section: _Section, name: str, items: dict[str, str]
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | str:
    """Return the client's address, or the reason why the section has no address of a single host."""
    text = next((items[key] for key in _ADDRESSES if key in items), name)
    if "netmask" in items and "/" not in text:
        text = f"{text}/{items['netmask']}"
    if text == "*":
        return "the client matches any address, and unregistered devices use the tenant's secret without a client"
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return f"{excerpt(text)} is not an address, and names are not resolved"
    if network.num_addresses > 1:
        return f"{text} is a network; unregistered devices use the tenant's secret anyway"
    return network.network_address


def _parse(text: str) -> _Section:
    root = _Section(0, [""])
    stack = [root]
    words: list[_Token] = []
    count = 0
    for token in _tokenise(text):
        if token.kind == "brace" and token.text == "{":
            if not words:
                raise unreadable_at(token.line, "A brace opens without a section name.")
            if len(stack) > _MAX_DEPTH:
                raise unreadable_at(token.line, f"Sections are nested deeper than {_MAX_DEPTH}.")
            count += 1
            if count > MAX_LINES:
                raise unreadable_at(
                    token.line, f"The file has more than {MAX_LINES} sections.", "Split the file into several files."
                )
            section = _Section(words[0].line, [word.text for word in words])
            stack[-1].sections.append(section)
            stack.append(section)
            words = []
        elif token.kind in ("brace", "newline"):
            _add_items(stack[-1], words)
            words = []
            if token.kind == "brace":
                if len(stack) == 1:
                    raise unreadable_at(token.line, "Unmatched closing brace.")
                stack.pop()
        else:
            if len(words) >= _MAX_WORDS:
                raise unreadable_at(
                    token.line, f"The line has more than {_MAX_WORDS} words.", "Check for a missing line break."
                )
            words.append(token)
            if token.kind == "word" and token.text.startswith(("$INCLUDE", "$-INCLUDE")) and len(words) == 1:
                raise unreadable_at(
                    token.line,
                    "$INCLUDE is not supported.",
                    "Insert the clients of the included file here, or import that file separately.",
                )
    _add_items(stack[-1], words)
    if len(stack) > 1:
        raise unreadable_at(stack[-1].line, "This section is not closed.")
    return root


def _add_items(section: _Section, words: list[_Token]) -> None:
    """Parse a line with one or several `name = value` pairs into the section."""
    at = 0
    while at < len(words):
        if at + 2 < len(words) and words[at + 1].kind == "operator" and words[at + 2].kind != "operator":
            section.items[words[at].text.lower()] = (words[at].line, words[at + 2].text)
            at += 3
        else:
            section.items.setdefault(words[at].text.lower(), (words[at].line, ""))
            at += 1
        if len(section.items) > _MAX_ITEMS:
            raise unreadable_at(words[0].line, f"The section has more than {_MAX_ITEMS} settings.")


def _tokenise(text: str) -> Iterator[_Token]:
    line, at, count, parts = 1, 0, 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            # The message must not contain the text, because it may be a secret.
            raise unreadable_at(line, "Invalid syntax.", "Check for a missing quotation mark.")
        kind = match.lastgroup or ""
        if kind in ("double", "single"):
            yield _Token(line, "text", _ESCAPE.sub(lambda found: _CONTROL.get(found[1], found[1]), match[kind]))
        elif kind != "blank":
            yield _Token(line, kind, match[kind])
        parts += 1
        count += kind not in ("blank", "newline")
        if count > _MAX_TOKENS or parts > _MAX_PARTS:
            raise unreadable_at(line, "The file has too many parts.", "Split the file into several files.")
        line += match[0].count("\n")
        at = match.end()
