"""Things of two MSPs with two tenants each: those of every noun."""

from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from nac.core.access.grants import Owner
from nac.engine.dictionary import read_dictionary, to_json
from nac.kit.clock import utc_now
from tests.dictionary.radiusd_library import FOLDER
from tests.isolation import nouns
from tests.isolation.noun import Filler, Noun, Operation, Things

MSPS = ("acme", "bolt")
TENANTS = {f"{msp}-{number}": msp for msp in MSPS for number in (1, 2)}


def _collect_nouns() -> Iterator[Noun]:
    """Each noun after those whose things it needs."""
    modules = {name: import_module(f"{nouns.__name__}.{name}") for _, name, _ in iter_modules(nouns.__path__)}
    found: dict[str, Noun] = {name: module.NOUN for name, module in modules.items()}
    for name in TopologicalSorter({name: noun.after for name, noun in found.items()}).static_order():
        yield found[name]


NOUNS = tuple(_collect_nouns())
OPERATIONS: dict[str, Operation] = {name: each for noun in NOUNS for name, each in noun.operations.items()}


@cache
def dictionary() -> bytes:
    return to_json(read_dictionary(FOLDER / "dictionary"))


def named(slug: str, number: int) -> Things:
    """Things that are identified by name; also unknown ones."""
    now = utc_now()
    names = ("new_name", "new_slug", *(name for noun in NOUNS for name in noun.names))
    return {
        "mark": slug,
        "soon": (now + timedelta(days=1)).isoformat(),
        "lately": (now - timedelta(hours=1)).isoformat(),
        "domain": f"{slug}.example",
        "new_email": f"new@{slug}.example",
        **{name: f"{name.replace('_', '-')}-{slug}" for name in names},
        **{
            name: value.format(mark=slug, number=number) if isinstance(value, str) else value
            for noun in NOUNS
            for name, value in noun.things.items()
        },
    }


@cache
def nonexistent_values() -> dict[str, Any]:
    """Unknown values, one for each kind of existing thing. Read only."""
    unknown = {name: value for noun in NOUNS for name, value in noun.unknown.items()}
    return {**named("nobody", 99), "tenant": "nobody", "msp": "nobody", **unknown}


def fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    for noun in NOUNS:
        if noun.fill_owner is not None:
            noun.fill_owner(filler, things, owner)


def fill_tenant(filler: Filler, things: Things) -> None:
    for noun in NOUNS:
        if noun.fill_tenant is not None:
            noun.fill_tenant(filler, things)


def fill_msp(filler: Filler, things: Things) -> None:
    for noun in NOUNS:
        if noun.fill_msp is not None:
            noun.fill_msp(filler, things)
