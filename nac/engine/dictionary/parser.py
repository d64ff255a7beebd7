"""Parses FreeRADIUS 3.2 dictionary files in the same way as radiusd."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from nac.engine.dictionary.model import Dictionary, DictionaryAttribute, VendorFormat
from nac.engine.dictionary.value_checks import REPLY_TYPES

_TYPES = (*sorted(REPLY_TYPES), "abinary", "evs", "extended", "long-extended", "tlv", "vsa")
_TYPE_ALIASES = {"uint8": "byte", "uint16": "short", "uint32": "integer", "int32": "signed", "uint64": "integer64"}
_TYPE_ALIASES["cidr"] = "ipv4prefix"
_ENUMERABLE = ("byte", "short", "integer", "octets")
_WORD_COUNTS = {"ATTRIBUTE": (3, 4), "VALUE": (3, 3), "VALUE-ALIAS": (2, 2), "VENDOR": (2, 3)}
_FLAGS = ("array", "concat", "virtual", "secret")


class DictionaryDamaged(Exception):
    """A dictionary file cannot be read, or one of its lines cannot be parsed."""


def read_dictionary(*files: Path) -> Dictionary:
    """Return the dictionary of these files, including the files that `$INCLUDE` lines name.

    Pass the files in radiusd's order: first the shared file, then the local file. Raises DictionaryDamaged with file
    and line.
    """
    reader = _DictionaryReader()
    for file in files:
        reader.read(file)
    return reader.finish()


@dataclass(slots=True)
class _Block:
    """The open BEGIN-VENDOR and BEGIN-TLV blocks in the current file."""

    vendor: int = 0
    extended: bool = False
    tlvs: list[str] = field(default_factory=list)


class _DictionaryReader:
    def __init__(self) -> None:
        self._by_name: dict[str, DictionaryAttribute] = {}
        self._by_number: dict[tuple[int, int], DictionaryAttribute] = {}
        self._vendors: dict[int, VendorFormat] = {}
        self._vendor_numbers: dict[str, int] = {}
        self._values: dict[tuple[int, int], dict[str, int]] = {}
        self._aliases: dict[tuple[int, int], tuple[int, int]] = {}
        self._early_values: list[tuple[str, str, int]] = []
        self._seen: set[Path] = set()

    def read(self, path: Path) -> None:
        path = path.resolve()
        if path in self._seen:
            return
        self._seen.add(path)
        try:
            text = path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as exc:
            raise DictionaryDamaged(f"{path}: {exc.strerror}") from exc
        block = _Block()
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                self._line(words, block, path)
            except (ValueError, IndexError, KeyError) as exc:
                raise DictionaryDamaged(f"{path}, line {number}: {exc}: {line.strip()[:100]}") from exc

    def finish(self) -> Dictionary:
        for attribute_name, value_name, value in self._early_values:
            attribute = self._by_name.get(attribute_name.lower())
            if attribute is None:
                raise DictionaryDamaged(f"VALUE {value_name} refers to an undefined attribute {attribute_name}")
            # If a VALUE line precedes its ATTRIBUTE line, radiusd ignores the attribute's vendor.
            self._values.setdefault((0, attribute.number), {}).setdefault(value_name.lower(), value)
        values = {**self._values}
        for alias, target in self._aliases.items():
            values[alias] = values.get(target, {})
        return Dictionary(
            MappingProxyType({name: self._as_encoded(attribute) for name, attribute in self._by_name.items()}),
            MappingProxyType(self._vendors),
            MappingProxyType({key: MappingProxyType(names) for key, names in values.items()}),
        )

    def _as_encoded(self, attribute: DictionaryAttribute) -> DictionaryAttribute:
        """Return the attribute with the type and flags of the last definition of the attribute's number. radiusd uses
        the last definition for replies."""
        if attribute.nested:
            return attribute
        return replace(self._by_number.get((attribute.vendor, attribute.number), attribute), name=attribute.name)

    def _line(self, words: list[str], block: _Block, path: Path) -> None:
        keyword, *rest = words
        least, most = _WORD_COUNTS.get(keyword.upper(), (1, 2))
        if not least <= len(rest) <= most:
            raise ValueError(f"{keyword} needs {least} to {most} words")
        match keyword.upper():
            case "ATTRIBUTE":
                self._attribute(rest, block)
            case "VALUE":
                self._value(*rest)
            case "VALUE-ALIAS":
                self._alias(*rest)
            case "VENDOR":
                self._vendor(*rest)
            case "$INCLUDE":
                self.read(path.parent / rest[0])
            case "$INCLUDE-" | "$-INCLUDE":
                if (path.parent / rest[0]).exists():
                    self.read(path.parent / rest[0])
            case "BEGIN-VENDOR":
                block.vendor = self._vendor_numbers[rest[0].lower()]
                block.extended = len(rest) > 1
            case "END-VENDOR":
                block.vendor, block.extended = 0, False
            case "BEGIN-TLV":
                block.tlvs.append(rest[0])
            case "END-TLV":
                block.tlvs.pop()
            case _:
                raise ValueError(f"unknown keyword {keyword}")

    def _attribute(self, words: list[str], block: _Block) -> None:
        name, number, kind, *more = words
        flags = more[0].split(",") if more else []
        vendor = block.vendor
        length = 0
        if kind.startswith("octets["):
            kind, length = "octets", _parse_number(kind[7:].partition("]")[0])
        kind = _TYPE_ALIASES.get(kind, kind)
        if kind not in _TYPES:
            raise ValueError(f"unknown type {kind}")
        tagged, encrypt = False, 0
        for flag in filter(None, flags):
            if flag in ("has_tag", "has_tag=1"):
                tagged = True
            elif flag.startswith("encrypt="):
                encrypt = _parse_number(flag.partition("=")[2])
            elif flag not in _FLAGS:
                # Old syntax without BEGIN-VENDOR: one of the flags is the vendor's name.
                vendor = self._vendor_numbers[flag.lower()]
        nested = block.extended or bool(block.tlvs) or "." in number
        value = 0 if "." in number else _parse_number(number)
        self._define(DictionaryAttribute(name, vendor, value, kind, tagged, encrypt, length, nested))

    def _define(self, attribute: DictionaryAttribute) -> None:
        before = self._by_name.get(attribute.name.lower())
        self._by_name[attribute.name.lower()] = attribute
        if attribute.nested:
            return
        if before is not None:
            self._by_number.pop((before.vendor, before.number), None)
        self._by_number[attribute.vendor, attribute.number] = attribute

    def _value(self, attribute_name: str, name: str, number: str) -> None:
        if attribute_name.lower() == "server-config":
            return
        attribute = self._by_name.get(attribute_name.lower())
        value = _parse_number(number)
        if attribute is None:
            self._early_values.append((attribute_name, name, value))
        elif attribute.type not in _ENUMERABLE:
            raise ValueError(f"values of type {attribute.type} cannot have names")
        elif not attribute.nested:
            self._values.setdefault((attribute.vendor, attribute.number), {}).setdefault(name.lower(), value)

    def _alias(self, name: str, target_name: str) -> None:
        attribute, target = self._by_name[name.lower()], self._by_name[target_name.lower()]
        self._aliases[attribute.vendor, attribute.number] = (attribute.vendor, target.number)

    def _vendor(self, name: str, number: str, layout: str = "") -> None:
        value = int(number)
        self._vendor_numbers[name.lower()] = value
        if not layout:
            self._vendors[value] = VendorFormat(name, *_OLD_LAYOUTS.get(value, (1, 1)))
            return
        if not layout.lower().startswith("format="):
            raise ValueError(f"unknown layout {layout}")
        type_bytes, length_bytes, *continuation = layout[7:].split(",")
        self._vendors[value] = VendorFormat(name, int(type_bytes), int(length_bytes), continuation == ["c"])


# Layouts of USR, Lucent and Starent, which radiusd uses if no dictionary defines the vendor's layout.
_OLD_LAYOUTS = {429: (4, 0), 4846: (2, 1), 8164: (2, 2)}


def _parse_number(text: str) -> int:
    return int(text, 16) if text[:2].lower() == "0x" else int(text)
