"""Search filters (RFC 4515) with placeholders in values, such as `(&(objectClass=person)(uid={user}))`.

The text is parsed once. Each search encodes the filter with the values of the placeholders (RFC 4511 4.5.1.7).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nac.inventory.identity_sources.ldap import ber

_AND, _OR, _NOT, _EQUAL, _SUBSTRINGS, _PRESENT, _EXTENSIBLE = 0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0x87, 0xA9
_INITIAL, _ANY, _FINAL = 0x80, 0x81, 0x82
_RULE, _TYPE, _VALUE = 0x81, 0x82, 0x83
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]*(?:;[A-Za-z0-9-]+)*|\d+(?:\.\d+)+")
_ITEM = re.compile(r"(?P<attribute>[^=:()*]+)(?::(?P<rule>\d+(?:\.\d+)+):)?=(?P<value>[^()]*)")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_MAX_DEPTH = 16


class InvalidLdapFilter(ValueError):
    """The text is not a filter. The message contains the position of the mistake."""


@dataclass(frozen=True)
class _Comparison:
    attribute: str
    # Matching rule of an extensible match (RFC 4511 4.5.1.7.7); "" for equality.
    rule: str
    # Parts of the value, which asterisks separate. The parts can contain placeholders.
    parts: tuple[str, ...]

    def encode(self, values: Mapping[str, str]) -> bytes:
        parts = [_encode_value(part, values) for part in self.parts]
        if self.rule:
            return ber.sequence(
                (
                    ber.octets(self.rule, _RULE),
                    ber.octets(self.attribute, _TYPE),
                    ber.octets(parts[0], _VALUE),
                ),
                _EXTENSIBLE,
            )
        if self.parts == ("", ""):
            return ber.octets(self.attribute, _PRESENT)
        if len(parts) == 1:
            return ber.sequence((ber.octets(self.attribute), ber.octets(parts[0])), _EQUAL)
        pieces = [ber.octets(parts[0], _INITIAL)] if parts[0] else []
        pieces += [ber.octets(part, _ANY) for part in parts[1:-1] if part]
        pieces += [ber.octets(parts[-1], _FINAL)] if parts[-1] else []
        return ber.sequence((ber.octets(self.attribute), ber.sequence(pieces)), _SUBSTRINGS)


@dataclass(frozen=True)
class _Combination:
    tag: int
    members: "tuple[_Comparison | _Combination, ...]"

    def encode(self, values: Mapping[str, str]) -> bytes:
        return ber.sequence((member.encode(values) for member in self.members), self.tag)


class LdapFilter:
    """A parsed filter. Raises InvalidLdapFilter for invalid text, or a placeholder that is not in `placeholders`."""

    def __init__(self, text: str, *, placeholders: frozenset[str]) -> None:
        self._text = text
        self._at = 0
        self._root = self._read(0)
        if self._at != len(text):
            raise InvalidLdapFilter(f"unexpected text at character {self._at + 1}")
        unknown = set(_PLACEHOLDER.findall(text)) - placeholders
        if unknown:
            allowed = ", ".join(f"{{{name}}}" for name in sorted(placeholders))
            raise InvalidLdapFilter(f"unknown placeholder {{{min(unknown)}}}; use one of: {allowed}")

    def encode(self, values: Mapping[str, str]) -> bytes:
        """Return the filter encoded for a search request, with `values` for the placeholders."""
        return self._root.encode(values)

    def _read(self, depth: int) -> _Comparison | _Combination:
        if depth > _MAX_DEPTH:
            raise InvalidLdapFilter("nested too deeply")
        self._expect("(")
        sign = self._text[self._at : self._at + 1]
        if sign in ("&", "|", "!"):
            self._at += 1
            members = [self._read(depth + 1)]
            while sign != "!" and self._text[self._at : self._at + 1] == "(":
                members.append(self._read(depth + 1))
            self._expect(")")
            return _Combination({"&": _AND, "|": _OR, "!": _NOT}[sign], tuple(members))
        found = _ITEM.match(self._text, self._at)
        if found is None or not _ATTRIBUTE.fullmatch(found["attribute"]):
            raise InvalidLdapFilter(f"expected a comparison such as uid={{user}} at character {self._at + 1}")
        self._at = found.end()
        self._expect(")")
        parts = tuple(found["value"].split("*"))
        if found["rule"] and len(parts) > 1:
            raise InvalidLdapFilter(f"asterisk not allowed after the matching rule {found['rule']}")
        return _Comparison(found["attribute"], found["rule"] or "", parts)

    def _expect(self, character: str) -> None:
        if self._text[self._at : self._at + 1] != character:
            raise InvalidLdapFilter(f"expected {character!r} at character {self._at + 1}")
        self._at += 1


def _encode_value(part: str, values: Mapping[str, str]) -> bytes:
    """Encode a part of a value. `part` can contain escapes (RFC 4515). `values` of placeholders contain no escapes."""
    encoded = b""
    for place, text in enumerate(_PLACEHOLDER.split(part)):
        raw = text.encode()
        encoded += (
            values[text].encode() if place % 2 else _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), raw)
        )
    return encoded
