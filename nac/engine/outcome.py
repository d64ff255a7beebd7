"""What a rule or a fallback answers: a verdict, a VLAN, reply attributes."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, cast

from nac.engine.mistakes import Report, at_index, at_key

Verdict = Literal["permit", "deny"]
ReplyPair = tuple[str, str, str]

MAX_REPLY_ATTRIBUTES = 100
# RFC 2865 3: a packet has at most 4096 octets. The rest is for EAP, keys, State and what radiusd adds itself.
MAX_REPLY_BYTES = 4096 - 500
_MAX_VLAN_NAME_BYTES = 32
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,126}\Z")
_VLAN_ATTRIBUTES = ("Tunnel-Type", "Tunnel-Medium-Type", "Tunnel-Private-Group-Id")
# RFC 2868 3.1: the tag groups the attributes of one tunnel.
_VLAN_TAG = 1


class ReplyDictionary(Protocol):
    """What the dictionaries of the very radiusd say; `nac.dictionary.Dictionary` is one."""

    def check(self, attribute: str, value: str, tag: int | None) -> None:
        """Raises ValueError with a sentence unless radiusd takes this value in a reply."""

    def encoded_bytes(self, attribute: str, value: str, tag: int | None) -> int:
        """Octets in the packet of a pair that `check` takes."""

    def knows(self, attribute: str) -> bool:
        """Whether a request may carry an attribute of this name."""


@lru_cache(maxsize=4_096)
def _shared_pair(name: str, operator: str, value: str) -> ReplyPair:
    """Rules by the dozen answer with the same attributes: one tuple for all of them in a process."""
    return name, operator, value


@dataclass(frozen=True, slots=True)
class ReplyAttribute:
    attribute: str
    operator: str
    value: str
    tag: int | None = None

    def pair(self) -> ReplyPair:
        """As rlm_python3 takes it. radiusd reads a value as a double-quoted string, so backslashes are doubled."""
        name = self.attribute if self.tag is None else f"{self.attribute}:{self.tag}"
        return _shared_pair(name, self.operator, self.value.replace("\\", "\\\\"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The zero value denies."""

    verdict: Verdict = "deny"
    vlan: str = ""
    reply: tuple[ReplyAttribute, ...] = ()

    def attributes(self) -> tuple[ReplyAttribute, ...]:
        """The reply with the VLAN spelled out (RFC 3580 3.31)."""
        if not self.vlan:
            return self.reply
        values = ("VLAN", "IEEE-802", self.vlan)
        pairs = zip(_VLAN_ATTRIBUTES, values, strict=True)
        return tuple(ReplyAttribute(name, ":=", value, _VLAN_TAG) for name, value in pairs) + self.reply

    def pairs(self) -> tuple[ReplyPair, ...]:
        return tuple(item.pair() for item in self.attributes())


def parse_outcome(document: object, place: str, report: Report, replies: ReplyDictionary | None) -> Outcome:
    """The outcome; a deny where `document` has mistakes, which are in `report` then."""
    if not isinstance(document, dict):
        report.add(place, 'must be an object: {"verdict": "permit" or "deny", ...}')
        return Outcome()
    for key in document:
        if key not in ("verdict", "vlan", "reply"):
            report.add(at_key(place, key), "unknown key; an outcome has: verdict, vlan, reply")
    verdict = document.get("verdict")
    if verdict not in ("permit", "deny"):
        report.add(at_key(place, "verdict"), 'must be "permit" or "deny"')
        return Outcome()
    if verdict == "deny":
        for key in ("vlan", "reply"):
            if document.get(key):
                report.add(at_key(place, key), "a deny answers nothing but the reject; remove it")
        return Outcome()
    vlan = _parse_vlan(document.get("vlan"), at_key(place, "vlan"), report)
    reply = _ReplyParser(vlan, place, report, replies).parse(document.get("reply", []))
    return Outcome("permit", vlan, reply)


def _parse_vlan(value: object, place: str, report: Report) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        report.add(place, 'must be text in quotes: an id such as "20", or the name of a VLAN')
        return ""
    if value.isdigit():
        if not value.isascii() or value.startswith("0") or len(value) > 4 or not 1 <= int(value) <= 4094:
            report.add(place, "a VLAN id is 1 to 4094 (IEEE 802.1Q), without leading zeros")
            return ""
    elif not value.isprintable() or value != value.strip() or len(value.encode()) > _MAX_VLAN_NAME_BYTES:
        report.add(place, f"a VLAN name has 1 to {_MAX_VLAN_NAME_BYTES} printable characters (IEEE 802.1Q 12.10.2)")
        return ""
    return value


class _ReplyParser:
    """The reply attributes of one outcome: each by itself, beside the others, and all together."""

    def __init__(self, vlan: str, place: str, report: Report, replies: ReplyDictionary | None) -> None:
        self._report = report
        self._replies = replies
        self._place = at_key(place, "reply")
        self._seen: set[str] = set()
        by_vlan = Outcome("permit", vlan).attributes()
        self._by_vlan = {item.attribute.lower() for item in by_vlan}
        self._bytes = sum(self._checked_bytes(item, at_key(place, "vlan")) for item in by_vlan)

    def parse(self, document: object) -> tuple[ReplyAttribute, ...]:
        place = self._place
        if not isinstance(document, list):
            self._report.add(place, "must be a list of attributes")
            return ()
        if len(document) > MAX_REPLY_ATTRIBUTES:
            self._report.add(place, f"more than {MAX_REPLY_ATTRIBUTES} attributes")
            return ()
        parsed = [self._item(entry, at_index(place, index)) for index, entry in enumerate(document)]
        if self._bytes > MAX_REPLY_BYTES:
            self._report.add(place, f"{self._bytes} octets; a reply has room for {MAX_REPLY_BYTES} (RFC 2865 3)")
        return tuple(item for item in parsed if item is not None)

    def _item(self, document: object, place: str) -> ReplyAttribute | None:
        item = _parse_attribute(document, place, self._report)
        if item is None:
            return None
        name = item.attribute.lower()
        if name in self._by_vlan:
            self._report.add(at_key(place, "attribute"), "vlan sets this attribute already; use one of the two")
        elif name in self._seen and item.operator == ":=":
            # radiusd replaces the first attribute of that name, whatever its tag.
            self._report.add(at_key(place, "operator"), f'":=" replaces the {item.attribute} before; "+=" sends both')
        self._seen.add(name)
        self._bytes += self._checked_bytes(item, place)
        return item

    def _checked_bytes(self, item: ReplyAttribute, place: str) -> int:
        if self._replies is None:
            return 0
        try:
            self._replies.check(item.attribute, item.value, item.tag)
            return self._replies.encoded_bytes(item.attribute, item.value, item.tag)
        except ValueError as error:
            self._report.add(place, str(error))
            return 0


def _parse_attribute(document: object, place: str, report: Report) -> ReplyAttribute | None:
    if not isinstance(document, dict):
        report.add(place, 'must be an object: {"attribute": ..., "value": ...}')
        return None
    for key in document:
        if key not in ("attribute", "operator", "value", "tag"):
            report.add(at_key(place, key), "unknown key; a reply attribute has: attribute, operator, value, tag")
    name, operator = document.get("attribute"), document.get("operator", ":=")
    value, tag = document.get("value"), document.get("tag")
    good = True
    if not isinstance(name, str) or not _ATTRIBUTE_NAME.match(name):
        report.add(at_key(place, "attribute"), "must be the name of a RADIUS attribute; a tag goes into its own key")
        good = False
    if operator not in (":=", "+="):
        report.add(at_key(place, "operator"), 'must be ":=" (set, the default) or "+=" (add one more)')
        good = False
    if not isinstance(value, str) or not value:
        report.add(at_key(place, "value"), "must be text in quotes, numbers too, and not empty")
        good = False
    if tag is not None and (not isinstance(tag, int) or isinstance(tag, bool) or not 0 <= tag <= 31):
        report.add(at_key(place, "tag"), "must be a number from 0 to 31 (RFC 2868 3)")
        good = False
    if not good:
        return None
    return ReplyAttribute(cast(str, name), cast(str, operator), cast(str, value), cast("int | None", tag))
