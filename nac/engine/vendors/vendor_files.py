"""Reads vendor files and reports every mistake with its path in the file."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from string import Formatter
from types import MappingProxyType
from typing import cast

from nac.engine.vendors.recipes import build_recipe, list_missing_keys, read_recipe
from nac.engine.vendors.results import NEUTRAL_KEYS
from nac.engine.vendors.vendor import AttributeTemplate, Encoding, ResultForm, Vendor

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_ATTRIBUTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,126}")
_FORM_KEYS = ("attributes", "cannot", "takes", "wanted", "separator")
_TEMPLATE_KEYS = ("attribute", "operator", "value", "tag", "encoding")
_PLACEHOLDERS = {key: (key,) for key in NEUTRAL_KEYS} | {
    "downloadable_acl": ("entry", "entries", "number"),
    "reauthenticate": (),
}


class VendorFilesDamaged(Exception):
    """The packaged vendor files have mistakes."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(mistakes))


def read_vendor_files(texts: Mapping[str, bytes], *, default: str) -> dict[str, Vendor]:
    """Return vendors by name. `texts` are TOML files by file name. A vendor inherits missing keys from `default`.

    Raises VendorFilesDamaged.
    """
    reader = _VendorFileReader()
    read = {name.removesuffix(".toml"): reader.file(name, text) for name, text in sorted(texts.items())}
    recipes = reader.recipes
    if default not in read:
        reader.mistakes.append(f"{default}.toml: is missing")
    inherited = read[default].forms if default in read else {}
    for key in NEUTRAL_KEYS:
        if default in read and key not in inherited:
            reader.mistakes.append(f"{default}.toml: {key}: is missing; the default needs a form for every key")
    for key in list_missing_keys(recipes[default]) if default in read else ():
        reader.mistakes.append(f"{default}.toml: coa.{key}: is missing; the default needs all keys")
    if reader.mistakes:
        raise VendorFilesDamaged(reader.mistakes)
    return {
        name: Vendor(
            name,
            vendor.title,
            vendor.aliases,
            MappingProxyType({**inherited, **vendor.forms}),
            build_recipe(recipes[name], recipes[default]),
        )
        for name, vendor in read.items()
    }


class _VendorFileReader:
    def __init__(self) -> None:
        self.mistakes: list[str] = []
        # Recipe fields of each vendor.
        self.recipes: dict[str, dict[str, object]] = {}
        self._file = ""

    def _add(self, place: str, message: str) -> None:
        self.mistakes.append(f"{self._file}: {place}: {message}" if place else f"{self._file}: {message}")

    def file(self, file_name: str, text: bytes) -> Vendor:
        self._file = file_name
        name = file_name.removesuffix(".toml")
        self.recipes[name] = {"steps": {}}
        if not _NAME.fullmatch(name):
            self._add("", "a vendor's name must have lower-case letters, digits and dashes")
        try:
            document = tomllib.loads(text.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            self._add("", f"invalid TOML: {exc}")
            return Vendor(name, "", (), {})
        for key in document.keys() - {"title", "aliases", "sources", "coa", *NEUTRAL_KEYS}:
            self._add(key, f"unknown key; use one of: title, aliases, sources, coa, {', '.join(NEUTRAL_KEYS)}")
        self._texts(document, "sources")
        aliases = self._texts(document, "aliases")
        forms = {key: self._form(document[key], key) for key in NEUTRAL_KEYS if key in document}
        self.recipes[name] |= read_recipe(document.get("coa", {}), self._add)
        return Vendor(name, self._text(document, "title", ""), aliases, forms)

    def _text(self, table: Mapping[str, object], key: str, place: str, *, required: bool = True) -> str:
        value = table.get(key)
        if isinstance(value, str) and value:
            return value
        if required or key in table:
            self._add(f"{place}.{key}" if place else key, "must be nonempty text")
        return ""

    def _texts(self, document: Mapping[str, object], key: str) -> tuple[str, ...]:
        value = document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self._add(key, "must be a list of texts")
            return ()
        return tuple(value)

    def _form(self, table: object, key: str) -> ResultForm:
        if not isinstance(table, dict):
            self._add(key, "must be a table")
            return ResultForm()
        for unknown in table.keys() - set(_FORM_KEYS):
            self._add(f"{key}.{unknown}", f"unknown key; use one of: {', '.join(_FORM_KEYS)}")
        if ("attributes" in table) == ("cannot" in table):
            self._add(key, "must have either the key `attributes` or the key `cannot`")
        if ("takes" in table) != ("wanted" in table):
            self._add(
                key, "`takes` (a regular expression) and `wanted` (the description of `takes`) must be set together"
            )
        attributes = self._attributes(table.get("attributes"), key) if "attributes" in table else ()
        return ResultForm(
            attributes,
            self._text(table, "cannot", key, required=False),
            self._expression(table, key),
            self._text(table, "wanted", key, required=False),
            self._text(table, "separator", key, required=False),
        )

    def _expression(self, table: Mapping[str, object], key: str) -> re.Pattern[str] | None:
        text = self._text(table, "takes", key, required=False)
        try:
            return re.compile(text) if text else None
        except re.error as exc:
            self._add(f"{key}.takes", f"invalid regular expression: {exc}")
            return None

    def _attributes(self, entries: object, key: str) -> tuple[AttributeTemplate, ...]:
        place = f"{key}.attributes"
        if not isinstance(entries, list) or not entries:
            self._add(place, "must be a nonempty list of attributes")
            return ()
        mistakes_before = len(self.mistakes)
        found = [self._template(entry, f"{place}[{index}]", key) for index, entry in enumerate(entries)]
        used = {name for template in found if template for name in _placeholders(template.value)}
        if len(self.mistakes) == mistakes_before and _PLACEHOLDERS[key] and not used - {"number"}:
            self._add(place, f"no value contains {' or '.join(f'{{{name}}}' for name in _PLACEHOLDERS[key])}")
        return tuple(template for template in found if template is not None)

    def _template(self, entry: object, place: str, key: str) -> AttributeTemplate | None:
        if not isinstance(entry, dict):
            self._add(place, "must be a table with attribute and value")
            return None
        before = len(self.mistakes)
        for unknown in entry.keys() - set(_TEMPLATE_KEYS):
            self._add(f"{place}.{unknown}", f"unknown key; use one of: {', '.join(_TEMPLATE_KEYS)}")
        attribute, value = self._text(entry, "attribute", place), self._text(entry, "value", place)
        if attribute and not _ATTRIBUTE.fullmatch(attribute):
            self._add(f"{place}.attribute", "must be the name of a RADIUS attribute; use the key tag for a tag")
        operator, tag, encoding = entry.get("operator", ":="), entry.get("tag"), entry.get("encoding", "text")
        if operator not in (":=", "+="):
            self._add(f"{place}.operator", 'must be ":=" (set, the default) or "+=" (add)')
        if tag is not None and (type(tag) is not int or not 0 <= tag <= 31):
            self._add(f"{place}.tag", "must be a number from 0 to 31 (RFC 2868 3)")
        if encoding not in ("text", "hex", "pmk") or (encoding == "pmk" and key != "psk"):
            self._add(f"{place}.encoding", 'must be "text" (the default), "hex" or, only for psk, "pmk"')
        self._check_placeholders(value, f"{place}.value", key)
        if "{entry}" in value and operator != "+=":
            self._add(f"{place}.operator", 'must be "+=": each entry is one attribute')
        if len(self.mistakes) > before:
            return None
        return AttributeTemplate(
            attribute, cast(str, operator), value, cast("int | None", tag), cast(Encoding, encoding)
        )

    def _check_placeholders(self, value: str, place: str, key: str) -> None:
        allowed = _PLACEHOLDERS[key]
        try:
            names = _placeholders(value)
        except ValueError as exc:
            self._add(place, f"unmatched braces: {exc}")
            return
        for name in sorted(names - set(allowed)):
            self._add(place, f"unknown placeholder {{{name}}}; use: {', '.join(allowed) or 'none'}")
        if {"entry", "entries"} <= names:
            self._add(place, "must contain only one of {entry} and {entries}")


def _placeholders(template: str) -> set[str]:
    """Return the names of placeholders, including conversion and format. Raises ValueError."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
        for _, name, form, conversion in Formatter().parse(template)
        if name is not None
    }
