"""How a vendor's NASes accept requests about live sessions (RFC 5176): port, identification and steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

RequestPacket = Literal["disconnect", "coa"]
# Failures of a step after which another step can be tried.
Setback = Literal["refused", "unanswered"]
REQUEST_KINDS = ("disconnect", "reauthenticate", "bounce", "change")
SETBACKS: tuple[Setback, ...] = ("refused", "unanswered")
# Attributes that identify NAS and session (RFC 5176 3), sent if known. NAS-Port also stands for NAS-Port-Id.
IDENTIFYING_ATTRIBUTES = (
    "NAS-Identifier",
    "NAS-IP-Address",
    "NAS-Port",
    "User-Name",
    "Acct-Session-Id",
    "Calling-Station-Id",
    "Framed-IP-Address",
)
# Notations of a station's address.
STATION_FORMS = ("AA-BB-CC-DD-EE-FF", "aa-bb-cc-dd-ee-ff", "AA:BB:CC:DD:EE:FF", "aa:bb:cc:dd:ee:ff", "aabbccddeeff")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    # A Disconnect-Request, or a CoA-Request with `attributes`.
    send: RequestPacket
    # Names and values in the notation of `nac.engine.dictionary`.
    attributes: tuple[tuple[str, str], ...] = ()
    # Failures after which the next step is tried.
    next_on: tuple[Setback, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    port: int = 3799
    identify: tuple[str, ...] = ()
    station: str = STATION_FORMS[0]
    # By kind.
    steps: Mapping[str, tuple[RecipeStep, ...]] = field(default_factory=dict)

    def format_station(self, mac: str) -> str:
        """Return `mac` (12 lower-case hex digits) in this vendor's notation."""
        digits = mac.upper() if self.station.isupper() else mac
        separator = self.station[2] if self.station[2] in "-:" else ""
        return separator.join(digits[at : at + 2] for at in range(0, 12, 2))
