"""A NAS vendor: the RADIUS attributes for each result, and the results that the vendor does not support."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from nac.engine.vendors.recipes import Recipe
from nac.engine.vendors.results import ReplyAttribute, ReplyPair, Results

Encoding = Literal["text", "hex", "pmk"]
# IEEE 802.11 J.4.1: a passphrase has 8 to 63 printable ASCII characters. The key depends on passphrase and SSID.
MAX_PASSPHRASE_LENGTH = 63
_PMK_ROUNDS, _PMK_OCTETS = 4096, 32
_HIDDEN = "(hidden)"
# Usual step between the numbers of ACL entries on NASes.
_ENTRY_STEP = 10


@lru_cache(maxsize=4_096)
def _pmk(passphrase: str, ssid: str) -> str:
    key = hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), _PMK_ROUNDS, _PMK_OCTETS)
    return f"0x00{key.hex()}"


@dataclass(frozen=True, slots=True)
class AttributeTemplate:
    """An attribute of a reply; `value` has placeholders in braces."""

    attribute: str
    operator: str
    value: str
    tag: int | None = None
    # "hex": octets in radiusd's notation. "pmk": 0x00 and the pairwise master key, derived from passphrase and SSID.
    encoding: Encoding = "text"

    def fill(self, **values: object) -> ReplyAttribute:
        text = self.value.format(**values)
        if self.encoding == "hex":
            text = "0x" + text.encode().hex()
        return ReplyAttribute(self.attribute, self.operator, text, self.tag)

    def fill_passphrase(self, passphrase: str, ssid: str) -> ReplyAttribute:
        if self.encoding == "pmk":
            return ReplyAttribute(self.attribute, self.operator, _pmk(passphrase, ssid), self.tag)
        return self.fill(psk=passphrase)

    def hidden(self) -> ReplyPair:
        """Return the pair with a masked passphrase, for display."""
        return ReplyAttribute(self.attribute, self.operator, _HIDDEN, self.tag).pair()


@dataclass(frozen=True, slots=True)
class ResultForm:
    """Support of a vendor for one kind of result, such as `acl`: the RADIUS attributes, or the reason why the vendor
    does not support this kind."""

    attributes: tuple[AttributeTemplate, ...] = ()
    cannot: str = ""
    # Required format of the value (for a downloadable ACL: of each entry), and a description of the format.
    takes: re.Pattern[str] | None = None
    wanted: str = ""
    # Separator of ACL entries if one attribute contains all entries.
    separator: str = ""


class RenderedAttribute(NamedTuple):
    # Origin of the attribute: a key of the results, or an entry such as "reply[2]".
    source: str
    attribute: ReplyAttribute


class VendorRefusal(NamedTuple):
    """An unsupported result. `place` is the path within the results, such as "acl" or "reply[2].attribute"."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


@dataclass(frozen=True, slots=True)
class Rendering:
    attributes: tuple[RenderedAttribute, ...] = ()
    # Attributes that still need the endpoint's passphrase.
    passphrase: tuple[AttributeTemplate, ...] = ()
    refusals: tuple[VendorRefusal, ...] = ()

    def pairs(self) -> tuple[ReplyPair, ...]:
        return tuple(item.attribute.pair() for item in self.attributes)


@dataclass(frozen=True, slots=True)
class Vendor:
    # Value of `nas.vendor`, in lower case.
    name: str
    title: str
    aliases: tuple[str, ...]
    forms: Mapping[str, ResultForm]
    recipe: Recipe = field(default_factory=Recipe)

    def render(self, results: Results) -> Rendering:
        """Return the RADIUS attributes of `results`. If the returned value contains refusals, the attributes are
        incomplete and must not be sent. Never raises."""
        made: list[RenderedAttribute] = []
        passphrase: tuple[AttributeTemplate, ...] = ()
        refusals: list[VendorRefusal] = []
        for key in results.used_keys():
            form = self.forms[key]
            values = self._values(key, results)
            if why := self._refusal(form, key, values):
                refusals.append(VendorRefusal(key, why))
            elif key == "psk":
                passphrase = form.attributes
            else:
                made += (RenderedAttribute(key, attribute) for attribute in _fill_templates(form, key, values))
        refusals += _find_collisions(made, passphrase)
        made += _render_reply_attributes(results, {item.attribute.attribute.lower() for item in made})
        refusals += _find_set_twice(made, passphrase)
        return Rendering(tuple(made), passphrase, tuple(refusals))

    def entries_refusal_reason(self, entries: tuple[str, ...]) -> str:
        """Return why this vendor does not accept entries of a downloadable ACL, or ""."""
        return self._refusal(self.forms["downloadable_acl"], "downloadable_acl", entries)

    def _values(self, key: str, results: Results) -> tuple[str, ...]:
        if key == "downloadable_acl":
            assert results.downloadable_acl is not None
            return results.downloadable_acl.entries_for(self.name)
        return (str(getattr(results, key)),)

    def _refusal(self, form: ResultForm, key: str, values: tuple[str, ...]) -> str:
        if form.cannot:
            return f"{self.title}: {form.cannot}"
        if not values:
            return f"{self.title}: the ACL has no entries for this vendor"
        if form.takes is not None:
            wrong = next((value for value in values if not form.takes.fullmatch(value)), None)
            if wrong is not None:
                return f"{self.title}: expects {form.wanted}, not {wrong[:64]!r}"
        return ""


def _fill_templates(form: ResultForm, key: str, values: tuple[str, ...]) -> Iterator[ReplyAttribute]:
    for template in form.attributes:
        if key != "downloadable_acl":
            yield template.fill(**{key: values[0]})
        elif "{entry}" in template.value:
            for number, entry in enumerate(values, start=1):
                yield template.fill(entry=entry, number=number * _ENTRY_STEP)
        else:
            yield template.fill(entries=form.separator.join(values))


def _find_collisions(
    made: list[RenderedAttribute], passphrase: tuple[AttributeTemplate, ...]
) -> Iterator[VendorRefusal]:
    """Yield a refusal for each result that needs the same attribute as an earlier result."""
    owners: dict[str, str] = {}
    of_keys: list[tuple[str, ReplyAttribute | AttributeTemplate]] = [
        *made,
        *(("psk", template) for template in passphrase),
    ]
    for source, item in of_keys:
        owner = owners.setdefault(item.attribute.lower(), source) if item.operator == ":=" else source
        if owner != source:
            yield VendorRefusal(source, f"{owner} already uses {item.attribute}; use only one of the two")


def _render_reply_attributes(results: Results, used: set[str]) -> Iterator[RenderedAttribute]:
    """Yield the attributes of `reply`. If another result already sends an attribute, `reply` adds a value to it."""
    for index, item in enumerate(results.reply):
        if item.operator == ":=" and item.attribute.lower() in used:
            item = ReplyAttribute(item.attribute, "+=", item.value, item.tag)
        yield RenderedAttribute(f"reply[{index}]", item)


def _find_set_twice(
    made: list[RenderedAttribute], passphrase: tuple[AttributeTemplate, ...]
) -> Iterator[VendorRefusal]:
    """Yield a refusal for each attribute of `reply` that another result already sets."""
    owners = {item.attribute.lower(): "psk" for item in passphrase if item.operator == ":="}
    for source, item in made:
        name = item.attribute.lower()
        if not source.startswith("reply"):
            if item.operator == ":=":
                owners[name] = source
        elif name in owners:
            yield VendorRefusal(
                f"{source}.attribute", f"{owners[name]} already sets this attribute; use only one of the two"
            )
