"""Types of options and arguments for values of the API."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from cli.remote.description import OperationInput
from cli.time_options import DurationType, SinceType
from nac.kit.errors import InvalidInput

_TYPES: dict[str, click.ParamType[Any]] = {"integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}
_SIZE = re.compile(r"([0-9]+)([KMGT]?)i?B", re.IGNORECASE)
# RFC 2868 3.1: a tag is 1 to 31.
_CHANGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*)(?::([0-9]{1,2}))?=(.+)", re.DOTALL)
_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class _ShortChoice(click.Choice[str]):
    """Choice that also accepts the last words of a value, such as `user` for `eap-client-user`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        ends = [choice for choice in self.choices if choice.endswith(f"-{value}")]
        return ends[0] if value not in self.choices and len(ends) == 1 else super().convert(value, param, ctx)


class _TimeType(click.ParamType[str]):
    """Type of an option for a time. Converts the time to RFC 3339 for the API."""

    name = "TIME"

    def __init__(self, *, with_ages: bool) -> None:
        self._with_ages = with_ages
        if with_ages:
            self.name = "AGO|DATE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not self._with_ages and re.fullmatch(r"[0-9]+[smhd]", text):
            self.fail(f"{text!r} is not a date such as 2026-01-31.", param, ctx)
        return SinceType().convert(text, param, ctx).isoformat()


class _SecondsType(click.ParamType[int]):
    """Type of an option for seconds, or for a duration such as 15m."""

    name = "SECONDS|TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        return int(text) if text.isdigit() else int(DurationType().convert(text, param, ctx).total_seconds())


class _SizeType(click.ParamType[str]):
    """Type of an option for bytes, or for a size such as 20GB. Other texts stay unchanged."""

    name = "BYTES|SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = _SIZE.fullmatch(str(value))
        return str(int(found[1]) * _SIZES[found[2].upper()]) if found else str(value)


def choose_raw_type(value: OperationInput) -> click.ParamType[Any]:
    """Return the type of an option of `./admit api`, with the values of the API."""
    if value.nullable and value.where == "body":
        # One of the allowed texts is "null".
        return click.STRING
    return click.Choice(value.choices) if value.choices else _TYPES.get(value.kind, click.STRING)


def choose_type(value: OperationInput, *, with_ages: bool) -> click.ParamType[Any]:
    """Return the type of an option of a short command.

    The type also accepts ages (if `with_ages`), durations, sizes, and the last words of a choice.
    """
    if value.choices:
        return _ShortChoice(value.choices)
    if value.kind == "time":
        return _TimeType(with_ages=with_ages)
    if value.name == "bytes" or value.name.endswith("_bytes"):
        return _SizeType()
    if value.kind == "integer" and value.name.endswith("_seconds"):
        return _SecondsType()
    return _TYPES.get(value.kind, click.STRING)


def parse_member(value: OperationInput, found: Any, *, option: str) -> Any:  # noqa: ANN401 -- any JSON
    """Return the member of the body for the value of an option. Raises InvalidInput."""
    if value.kind in ("texts", "scalars"):
        return _parse_map(found, option, parse_scalar if value.kind == "scalars" else str)
    if value.repeated:
        return list(found)
    if value.nullable and found == "null":
        return None
    if value.kind in ("text", "time"):
        return found
    if value.kind == "scalar":
        return parse_scalar(found)
    return _parse_json(found, option) if isinstance(found, str) else found


def parse_scalar(text: str) -> Any:  # noqa: ANN401 -- a scalar
    """Return the number or boolean that the text represents, otherwise the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, int | float) else text


def parse_changes(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse attributes of a CoA-Request in the form ATTRIBUTE[:TAG]=VALUE. Raises InvalidInput with all mistakes."""
    found = [(text, _CHANGE.fullmatch(text)) for text in texts]
    if wrong := [text for text, match in found if match is None]:
        raise InvalidInput(
            f"Invalid ATTRIBUTE=VALUE: {', '.join(map(repr, wrong))}.",
            place="--set",
            remedy="For example --set Session-Timeout=600, or with a tag --set Tunnel-Private-Group-Id:1=30.",
        )
    matches = [match.groups() for _, match in found if match is not None]
    return [{"attribute": name, "value": value} | ({"tag": int(tag)} if tag else {}) for name, tag, value in matches]


def _parse_map(texts: tuple[str, ...], option: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for text in texts:
        if text.startswith("{"):
            members |= _parse_json(text, option)
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"Invalid value {text!r}.", place=option, remedy="Use KEY=VALUE; KEY= removes KEY.")
        members[name] = parse(value) if value else None
    return members


def _parse_json(text: str, option: str) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"Invalid JSON: {exc}.", place=option) from exc
