"""Recipes for CoA-Requests and Disconnect-Requests (RFC 5176) to a vendor's NASes: port, identification of the session,
and steps.

`read_recipe` reads port, identification and steps from the table `coa` of a vendor file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

RequestPacket = Literal["disconnect", "coa"]
# Failures after which Admit can try the next step: the NAS refused the request or did not respond.
Setback = Literal["refused", "unanswered"]
REQUEST_KINDS = ("disconnect", "reauthenticate", "bounce", "change")
SETBACKS: tuple[Setback, ...] = ("refused", "unanswered")
# Attributes that identify NAS and session (RFC 5176 3). Admit sends the attributes whose value it knows. NAS-Port also
# stands for NAS-Port-Id.
IDENTIFYING_ATTRIBUTES = (
    "NAS-Identifier",
    "NAS-IP-Address",
    "NAS-Port",
    "User-Name",
    "Acct-Session-Id",
    "Calling-Station-Id",
    "Framed-IP-Address",
)
# Notations of a device's MAC address.
STATION_FORMS = ("AA-BB-CC-DD-EE-FF", "aa-bb-cc-dd-ee-ff", "AA:BB:CC:DD:EE:FF", "aa:bb:cc:dd:ee:ff", "aabbccddeeff")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    # A Disconnect-Request, or a CoA-Request with `attributes`.
    send: RequestPacket
    # Names and values in the notation of `nac.engine.dictionary`.
    attributes: tuple[tuple[str, str], ...] = ()
    # Failures after which Admit tries the next step.
    next_on: tuple[Setback, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    port: int = 3799
    identify: tuple[str, ...] = ()
    station: str = STATION_FORMS[0]
    # Steps by kind of request.
    steps: Mapping[str, tuple[RecipeStep, ...]] = field(default_factory=dict)

    def format_station(self, mac: str) -> str:
        """Return `mac` (12 lower-case hex digits) in this vendor's notation."""
        digits = mac.upper() if self.station.isupper() else mac
        separator = self.station[2] if self.station[2] in "-:" else ""
        return separator.join(digits[at : at + 2] for at in range(0, 12, 2))


_KEYS = ("port", "identify", "station", *REQUEST_KINDS)
_STEP_KEYS = ("send", "attributes", "next_on")
_MAX_STEPS = 4
# Receives the path in the file and the mistake.
AddMistake = Callable[[str, str], None]


def read_recipe(table: object, add: AddMistake) -> dict[str, object]:
    """Return the fields of `Recipe` that the table contains. Passes every mistake to `add`."""
    if not isinstance(table, dict):
        add("coa", "must be a table")
        return {}
    for unknown in table.keys() - set(_KEYS):
        add(f"coa.{unknown}", f"unknown key; use one of: {', '.join(_KEYS)}")
    fields: dict[str, object] = {}
    if "port" in table:
        fields["port"] = table["port"]
        if type(table["port"]) is not int or not 1 <= table["port"] <= 65535:
            add("coa.port", "must be a number from 1 to 65535")
    if "identify" in table:
        fields["identify"] = _read_names(table["identify"], "coa.identify", IDENTIFYING_ATTRIBUTES, add)
        if not fields["identify"]:
            add("coa.identify", f"must contain at least one of: {', '.join(IDENTIFYING_ATTRIBUTES)}")
    if "station" in table:
        fields["station"] = table["station"]
        if table["station"] not in STATION_FORMS:
            add("coa.station", f"must be one of: {', '.join(STATION_FORMS)}")
    fields["steps"] = {kind: _read_steps(table[kind], f"coa.{kind}", add) for kind in REQUEST_KINDS if kind in table}
    return fields


def build_recipe(own: Mapping[str, object], default: Mapping[str, object]) -> Recipe:
    """Return the recipe of a vendor from its own fields, with missing fields from the default vendor."""
    steps = {
        **cast("dict[str, tuple[RecipeStep, ...]]", default["steps"]),
        **cast("dict[str, tuple[RecipeStep, ...]]", own["steps"]),
    }
    whole = {**default, **own}
    return Recipe(
        cast(int, whole["port"]), cast("tuple[str, ...]", whole["identify"]), cast(str, whole["station"]), steps
    )


def list_missing_keys(default: Mapping[str, object]) -> list[str]:
    """Return the keys that the file of the default vendor lacks."""
    steps = cast("dict[str, object]", default.get("steps", {}))
    return [key for key in ("port", "identify", "station") if key not in default] + [
        k for k in REQUEST_KINDS if k not in steps
    ]


def _read_names(value: object, place: str, allowed: tuple[str, ...], add: AddMistake) -> tuple[str, ...]:
    if not isinstance(value, list):
        add(place, f"must be a list of: {', '.join(allowed)}")
        return ()
    for unknown in [name for name in value if name not in allowed]:
        add(place, f"unknown value {unknown!r}; use one of: {', '.join(allowed)}")
    return tuple(name for name in value if name in allowed)


def _read_steps(value: object, place: str, add: AddMistake) -> tuple[RecipeStep, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_STEPS:
        add(place, f"must be a list of 1 to {_MAX_STEPS} steps")
        return ()
    steps = tuple(_read_step(entry, f"{place}[{index}]", add) for index, entry in enumerate(value))
    for index, step in enumerate(steps):
        is_last = index == len(steps) - 1
        if is_last and step.next_on:
            add(f"{place}[{index}].next_on", "is not allowed in the last step")
        if not is_last and not step.next_on:
            add(f"{place}[{index}].next_on", "is required, because further steps follow")
    return steps


def _read_step(entry: object, place: str, add: AddMistake) -> RecipeStep:
    if not isinstance(entry, dict):
        add(place, "must be a table with send")
        return RecipeStep("disconnect")
    for unknown in entry.keys() - set(_STEP_KEYS):
        add(f"{place}.{unknown}", f"unknown key; use one of: {', '.join(_STEP_KEYS)}")
    send = entry.get("send")
    if send not in ("disconnect", "coa"):
        add(f"{place}.send", 'must be "disconnect" or "coa"')
        send = "disconnect"
    attributes = entry.get("attributes", {})
    if not isinstance(attributes, dict) or not all(isinstance(text, str) and text for text in attributes.values()):
        add(f"{place}.attributes", "must be a table of attributes and text values")
        attributes = {}
    next_on = _read_names(entry.get("next_on", []), f"{place}.next_on", SETBACKS, add)
    return RecipeStep(cast(RequestPacket, send), tuple(attributes.items()), cast("tuple[Setback, ...]", next_on))
