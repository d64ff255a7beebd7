"""Reader of ADMIT_* variables. The reader also collects the descriptions of the variables for
docs/reference/settings.md."""

import difflib
import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import time
from pathlib import Path

from nac.kit.outbound.reach import DEFAULT_REACH, OutboundReach

PREFIX = "ADMIT_"
# Variables that are not settings. The supervisor and the agent set the first two. The command line reads all other
# variables.
_NOT_SETTINGS = ("MODULE_SETTINGS", "SUPERVISOR", "API_TOKEN", "API_URL")


class SettingsError(Exception):
    """The environment has invalid settings. Each of the `mistakes` names a variable and its required value."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Description of a variable in docs/reference/settings.md."""

    # Name without "ADMIT_".
    name: str
    # Default value as text, or "". If the default depends on other values, a description of the default.
    default: str
    allowed: str
    about: str


class EnvironmentReader:
    """Reader with a method for each type of variable. If a value is invalid, the method adds a mistake and returns the
    default value.

    `about` is the description in docs/reference/settings.md. `default_text` describes a default that depends on other
    settings or on the machine.
    """

    def __init__(self, environment: Mapping[str, str], required: Collection[str]) -> None:
        self._environment = environment
        self._required = required
        self.variables: list[Variable] = []
        self.mistakes: list[str] = []

    def _raw(self, name: str, default: str, allowed: str, about: str) -> str | None:
        self.variables.append(Variable(name=name, default=default, allowed=allowed, about=about))
        value = self._environment.get(PREFIX + name)
        if value is None and name in self._required:
            self._refuse(name, "is not set, but this process needs the setting")
        return value

    def _refuse(self, name: str, why: str) -> None:
        self.mistakes.append(f"{PREFIX}{name} {why}")

    def refuse_unknown(self) -> None:
        """Add a mistake for each ADMIT_* variable that no method has read, such as a misspelt name.

        Call this method after all variables were read.
        """
        known = {variable.name for variable in self.variables} | set(_NOT_SETTINGS)
        given = {name.removeprefix(PREFIX) for name in self._environment if name.startswith(PREFIX)}
        for name in sorted(given - known):
            near = difflib.get_close_matches(name, known, n=1)
            self._refuse(name, "is not a setting" + (f"; did you mean {PREFIX}{near[0]}?" if near else ""))

    def is_given(self, name: str) -> bool:
        return PREFIX + name in self._environment

    def text(self, name: str, default: str, pattern: str, what: str, *, about: str, default_text: str = "") -> str:
        value = self._raw(name, default_text or default, what, about)
        return default if value is None else self._matching(name, value, default, pattern, what)

    def url(self, name: str, *schemes: str, about: str, default_text: str = "") -> str:
        value = self._raw(name, default_text, " or ".join(f"`{scheme}://`" for scheme in schemes), about)
        pattern = rf"({'|'.join(schemes)})://\S+"
        return "" if value is None else self._matching(name, value, "", pattern, f"a {schemes[0]}:// address")

    def _matching(self, name: str, value: str, default: str, pattern: str, what: str) -> str:
        if not re.fullmatch(pattern, value):
            self._refuse(name, f"is {value!r} but must be {what}")
            return default
        return value

    def number(self, name: str, default: int, low: int, high: int, *, about: str, default_text: str = "") -> int:
        return int(self.decimal(name, default, low, high, whole=True, about=about, default_text=default_text))

    def decimal(
        self,
        name: str,
        default: float,
        low: float,
        high: float,
        *,
        about: str,
        default_text: str = "",
        whole: bool = False,
    ) -> float:
        value = self._raw(name, default_text or str(default), f"{low} to {high}", about)
        if value is None:
            return default
        if (
            not re.fullmatch(r"\d{1,18}" if whole else r"\d{1,18}(\.\d{1,6})?", value)
            or not low <= float(value) <= high
        ):
            kind = "a whole number" if whole else "a number"
            self._refuse(name, f"is {value!r} but must be {kind} from {low} to {high}")
            return default
        return int(value) if whole else float(value)

    def folder(self, name: str, default: Path, *, about: str, default_text: str = "") -> Path:
        value = self._raw(name, default_text or str(default), "an absolute path", about)
        return default if value is None else self._path(name, value, default)

    def file(self, name: str, *, about: str) -> Path | None:
        value = self._raw(name, "", "an absolute path", about)
        return None if value is None else self._path(name, value, Path("/nonexistent"))

    def _path(self, name: str, value: str, default: Path) -> Path:
        if not Path(value).is_absolute():
            self._refuse(name, f"is {value!r} but must be an absolute path")
            return default
        return Path(value)

    def networks(self, name: str, default: str, *, about: str) -> str:
        """Read addresses and networks. Returns comma-separated text."""
        value = self._raw(name, default, "addresses or networks, comma-separated", about)
        if value is None or value == default:
            return default
        try:
            return ",".join(str(ipaddress.ip_network(part.strip())) for part in value.split(","))
        except ValueError:
            self._refuse(name, f"is {value!r} but must be addresses or networks (10.0.0.0/8), comma-separated")
            return default

    def address(self, name: str, default: str, *, about: str) -> str:
        value = self._raw(name, default, "an IPv4 or IPv6 address", about)
        if value is None:
            return default
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            self._refuse(name, f"is {value!r} but must be an IPv4 or IPv6 address")
            return default

    def window(self, name: str, default: tuple[time, time], *, about: str) -> tuple[time, time]:
        value = self._raw(name, "-".join(f"{each:%H:%M}" for each in default), "`HH:MM-HH:MM`", about)
        if value is None:
            return default
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", value):
            self._refuse(name, f"is {value!r} but must be two times of the day such as 01:00-05:00")
            return default
        begins, ends = value.split("-")
        return time.fromisoformat(begins), time.fromisoformat(ends)

    def reach(self, name: str, *, about: str) -> OutboundReach:
        value = self._raw(name, "", "networks, space-separated, `!` before a denied one", about)
        try:
            return OutboundReach.parse(value or "")
        except ValueError as exc:
            self._refuse(name, f"must be networks such as '10.1.0.0/16 !10.1.9.0/24' ({exc})")
            return DEFAULT_REACH
