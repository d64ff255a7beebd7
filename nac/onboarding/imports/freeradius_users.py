"""Import of the FreeRADIUS file `users` (mods-config/files/authorize).

An entry whose name is a MAC address becomes an endpoint. All other entries become users. An entry has a line with the
name and the check items, then indented lines with reply attributes (man 5 users).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nac.kit.bulk_rows import InputLine
from nac.kit.mac import normalise_mac
from nac.onboarding.imports.document import MAX_LINES, ImportDocument, excerpt, unreadable_at

_NAME = re.compile(r'"((?:[^"\\]++|\\.)*+)"|(\S+)')
_PAIR = re.compile(
    r"""\s*(?P<name>[A-Za-z][\w.:-]*)\s*(?P<operator>:=|\+=|-=|==|=~|!~|!=|<=|>=|=\*|!\*|=|<|>)\s*
    (?:"(?P<double>(?:[^"\\]++|\\.)*+)"|'(?P<single>(?:[^'\\]++|\\.)*+)'|(?P<bare>[^\s,"']++))?
    \s*(?P<comma>,|$|\#.*$)\s*""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_MAX_LINE_LENGTH = 64 * 1024
# Maximum number of check items and reply attributes in a file.
_MAX_PAIRS = 5 * MAX_LINES
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{32})")
_PASSWORD_CHECKS = {"cleartext-password", "user-password", "password"}
# Hashes that Admit cannot store.
_UNSUPPORTED_HASHES = {
    *("crypt-password", "md5-password", "smd5-password", "sha-password", "sha1-password", "ssha-password"),
    *("sha2-password", "ssha2-password", "ssha2-256-password", "ssha2-512-password", "lm-password", "pbkdf2-password"),
    "password-with-header",
}
_DATES = ("%d %b %Y", "%d %b %Y %H:%M:%S", "%b %d %Y", "%b %d %Y %H:%M:%S", "%d %b %Y %H:%M")
# For each reply attribute, the result of a policy rule that replaces it.
_RESULTS = {
    "tunnel-private-group-id": "vlan",
    "filter-id": "filter_id",
    "session-timeout": "session_timeout",
    "airespace-acl-name": "acl",
    "aruba-user-role": "role",
}


@dataclass(frozen=True, slots=True)
class _Pair:
    line: int
    name: str
    operator: str
    value: str


@dataclass(slots=True)
class _Entry:
    line: int
    name: str
    checks: list[_Pair]
    replies: list[_Pair] = field(default_factory=list)


def read(text: str, document: ImportDocument) -> None:
    """Parse a file into `document`. Raises Unreadable for $INCLUDE and for invalid lines."""
    for entry in _parse_entries(text):
        if entry.name == "DEFAULT":
            document.note(entry.line, "DEFAULT was skipped: create a rule in the policy instead")
        elif entry.name.startswith("DEFAULT"):
            document.note(entry.line, f"{excerpt(entry.name)} was skipped: the entry is not a user")
        elif normalise_mac(entry.name):
            _add_endpoint(entry, document)
        else:
            _add_user(entry, document)


def _add_endpoint(entry: _Entry, document: ImportDocument) -> None:
    values: dict[str, Any] = {"mac": entry.name, "attributes": {}}
    if _is_rejected(entry):
        values["status"] = "blocked"
    for pair in entry.checks:
        if pair.name.lower() == "expiration":
            if not _set_expiry(pair, values):
                document.note(pair.line, f"{excerpt(entry.name)} was skipped: {_invalid_date_text(pair)}")
                return
        elif pair.name.lower() not in _PASSWORD_CHECKS and pair.name.lower() != "auth-type":
            document.note(
                pair.line, f"{excerpt(entry.name)}: the check of {pair.name} was skipped: create a rule with this check"
            )
    _note_replies(entry, document, values["attributes"])
    document.endpoints.append(InputLine(entry.line, values))


def _add_user(entry: _Entry, document: ImportDocument) -> None:
    values: dict[str, Any] = {"name": entry.name}
    name = excerpt(entry.name)
    hashed = ""
    for pair in entry.checks:
        check = pair.name.lower()
        if check in _PASSWORD_CHECKS:
            values["password"] = pair.value
        elif check == "nt-password" and (found := _HEX.fullmatch(pair.value)):
            values["nt_hash"] = found[1]
            document.note(pair.line, f"{name} has an NT hash: only MS-CHAP and PEAP work until a password is set")
        elif check in _UNSUPPORTED_HASHES or check == "nt-password":
            hashed = pair.name
        elif check == "expiration":
            if not _set_expiry(pair, values):
                document.note(pair.line, f"{name} was skipped: {_invalid_date_text(pair)}")
                return
        elif check != "auth-type":
            document.note(pair.line, f"{name}: the check of {pair.name} was skipped: create a rule with this check")
    if _is_rejected(entry):
        values["disabled"] = True
    if "password" not in values and "nt_hash" not in values:
        why = f"the hash of the password is not supported ({hashed})" if hashed else "the user has no password"
        document.note(entry.line, f"{name} was skipped: {why}; create the user with a new password")
        return
    if "password" in values:
        values.pop("nt_hash", None)
    _note_replies(entry, document, {})
    document.users.append(InputLine(entry.line, values))


def _is_rejected(entry: _Entry) -> bool:
    return any(pair.name.lower() == "auth-type" and pair.value.lower() == "reject" for pair in entry.checks)


def _set_expiry(pair: _Pair, values: dict[str, Any]) -> bool:
    """Set the expiry of the user or endpoint. Returns False if the date is invalid.

    The caller must then skip the entry, because the user or endpoint would have access forever.
    """
    for form in _DATES:
        try:
            values["valid_until"] = datetime.strptime(pair.value, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
        return True
    return False


def _invalid_date_text(pair: _Pair) -> str:
    return f"invalid date in Expiration: {excerpt(pair.value)}"


def _note_replies(entry: _Entry, document: ImportDocument, attributes: dict[str, str]) -> None:
    """Add notes about reply attributes to the document.

    For an endpoint, also store the reply attributes as endpoint attributes, which rules can read.
    """
    for pair in entry.replies:
        # Remove the tag (RFC 2868), as in Tunnel-Private-Group-Id:0.
        plain = pair.name.partition(":")[0].lower()
        if plain in ("tunnel-type", "tunnel-medium-type", "fall-through", "service-type", "framed-protocol"):
            continue
        if plain not in _RESULTS:
            document.note(
                pair.line, f"{excerpt(entry.name)}: {pair.name} was skipped: set the attribute as a result of a rule"
            )
            continue
        result = _RESULTS[plain]
        attributes[result] = pair.value
        previous = f"{excerpt(entry.name)} got {pair.name} {excerpt(pair.value)}"
        document.note(pair.line, f"{previous}: set {result} in a rule")


def _parse_entries(text: str) -> Iterator[_Entry]:
    entry: _Entry | None = None
    count = pairs = 0
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        pairs += line.count("=")
        if len(line) > _MAX_LINE_LENGTH or pairs > _MAX_PAIRS:
            raise unreadable_at(
                number,
                f"The line has more than {_MAX_LINE_LENGTH} characters, or the file more than {_MAX_PAIRS} pairs.",
                "Check for a missing line break, or split the file.",
            )
        if line[0] in " \t":
            if entry is None:
                raise unreadable_at(number, "Reply attributes without an entry.", "Begin each entry with a name.")
            entry.replies += _parse_pairs(number, stripped)
            continue
        if stripped.startswith("$INCLUDE"):
            raise unreadable_at(
                number,
                "$INCLUDE is not supported.",
                "Insert the entries of the included file here, or import that file separately.",
            )
        if entry is not None:
            yield entry
        count += 1
        if count > MAX_LINES:
            raise unreadable_at(
                number, f"The file has more than {MAX_LINES} entries.", "Split the file into several files."
            )
        name = _NAME.match(stripped)
        assert name is not None
        rest = stripped[name.end() :]
        quoted = name[1] is not None
        entry = _Entry(number, _unescape(name[1]) if quoted else name[2], _parse_pairs(number, rest.strip()))
    if entry is not None:
        yield entry


def _parse_pairs(number: int, text: str) -> list[_Pair]:
    found = []
    at = 0
    while at < len(text) and text[at] != "#":
        match = _PAIR.match(text, at)
        if match is None or match.end() == at:
            # The message must not contain the text, because it may be a password.
            raise unreadable_at(number, "Expected a list of attribute, operator and value.", "See man 5 users.")
        value = next((match[kind] for kind in ("double", "single", "bare") if match[kind] is not None), "")
        found.append(
            _Pair(number, match["name"], match["operator"], _unescape(value) if match["bare"] is None else value)
        )
        at = match.end()
    return found


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: found[1], text)
