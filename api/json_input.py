"""Reads and checks request bodies before routes see them: size, time, nesting and media type.

A route accepts JSON of at most 1 MiB, or 16 KiB if the route needs no authentication. `openapi_extra` of a route
declares other limits and media types. The body of a route with authentication is read only after the caller is
authenticated.
"""

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from anyio import CapacityLimiter, to_thread
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from api.bodies import (
    BODY_TIMEOUT_SECONDS,
    BodyMemoryLimit,
    BodyTooLarge,
    TooMuchAtOnce,
    drain_body,
    read_body,
    replay_body,
)
from api.errors import render_error
from api.route_index import RouteIndex
from nac.kit.errors import AdmitError, InvalidInput

MAX_BODY_BYTES = 1024 * 1024
MAX_PUBLIC_BODY_BYTES: Final = 16 * 1024
_MAX_BYTES_KEY = "x-most-bytes"
_MAX_DRAINED_BYTES = 24 * 1024 * 1024
_DRAIN_TIMEOUT_SECONDS = 5.0
# Limits on bodies in memory. Without these limits, many large and slow bodies would fill the memory.
_MAX_SOURCE_BYTES: Final = 64 * 1024 * 1024
_MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
_MAX_DEPTH = 64
# Checking a body of this size takes about 5 ms. Larger bodies are checked in a thread, so that other requests do not
# wait.
_MAX_INLINE_BYTES = 64 * 1024
# Separate threads for checks of bodies, because all threads of routes may be blocked.
_CHECKER_THREADS = 2
# Characters of a signed 64-bit number, the longest that PostgreSQL stores.
_MAX_NUMBER_CHARACTERS = 20
# Maximum number of values in a body. Even a short value takes about a hundred bytes after parsing.
_MAX_VALUES = 500_000
# Maximum number of names in an object. Real objects have less than a tenth of this number. Each unknown name is a
# separate error.
_MAX_NAMES = 10_000
_MAX_DECIMAL_CHARACTERS = 40
_BODY_METHODS = {"POST", "PUT", "PATCH", "DELETE"}
# Bodies that some clients send if they have nothing to send.
_EMPTY_BODIES = {b"", b"{}", b"null"}
_INVALID_TEXT = re.compile("[\0\ud800-\udfff]")
_NON_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING_BRACKETS = b"[{"
_CHARSET = re.compile(rb'charset\s*=\s*"?([^\s";]*)')
# JSON uses UTF-8, which includes US-ASCII.
_CHARSETS = {b"utf-8", b"utf8", b"us-ascii"}


class UnsupportedMediaType(AdmitError):
    """The media type of the body is not supported."""

    status = 415


class NotJson(InvalidInput):
    """The body is not JSON."""


class TextRefused(InvalidInput):
    """The text contains an invalid character."""


class BodyNotRead(AdmitError):
    """This operation takes no body."""

    status = 400


class BodyRule(NamedTuple):
    """Limits of a route that differ from the defaults."""

    method: str
    # `prefix` precedes the route's own path.
    prefix: str
    path: re.Pattern[str]
    most_bytes: int
    json: bool


def accept_body(*, most_bytes: int, media_type: str = "", example: str = "") -> dict[str, Any]:
    """Value of a route's `openapi_extra`: the maximum size of the body, and the media type if not JSON."""
    extra: dict[str, Any] = {_MAX_BYTES_KEY: most_bytes}
    if media_type:
        schema = {"type": "string", "format": "binary"}
        content = {"schema": schema, **({"example": example} if example else {})}
        extra["requestBody"] = {"required": True, "content": {media_type: content}}
    return extra


def list_body_rules(routes: Iterable[object], *, prefix: str = "") -> Iterator[BodyRule]:
    for route in routes:
        extra: Mapping[str, Any] = getattr(route, "openapi_extra", None) or {}
        content = extra.get("requestBody", {}).get("content", {"application/json": {}})
        if isinstance(route, APIRoute) and (_MAX_BYTES_KEY in extra or "application/json" not in content):
            for method in route.methods or ():
                most = int(extra.get(_MAX_BYTES_KEY, MAX_BODY_BYTES))
                yield BodyRule(method, prefix, route.path_regex, most, "application/json" in content)


async def _skip_authentication(scope: Scope) -> None:
    return


class JsonInput:
    """Middleware that rejects invalid, large or slow bodies (400, 408, 413, 415, 422, 429)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        excepted: Iterable[BodyRule] = (),
        routes: Iterable[BaseRoute] = (),
        pages: Iterable[BaseRoute] = (),
        on_page: Callable[[AdmitError, str], ASGIApp] = lambda exc, path: render_error(exc),
        needs_caller: Callable[[APIRoute], bool] = lambda route: False,
        authenticate: Callable[[Scope], Awaitable[None]] = _skip_authentication,
    ) -> None:
        """If a route in `routes` has no body parameter, requests to this route must have no body.

        `on_page` renders errors of the routes in `pages`. `needs_caller` returns whether a route authenticates the
        caller. For such a route, `authenticate` raises an error if the caller is unknown.
        """
        self._app = app
        self._rules = tuple(excepted)
        known = tuple(routes)
        self._has_routes = bool(known)
        self._index = RouteIndex(known)
        self._caller_route_ids = {id(route) for route in known if isinstance(route, APIRoute) and needs_caller(route)}
        self._pages = RouteIndex(pages)
        self._on_page = on_page
        self._authenticate = authenticate
        self._checkers = CapacityLimiter(_CHECKER_THREADS)
        self._held = BodyMemoryLimit(of_source=_MAX_SOURCE_BYTES, in_all=_MAX_TOTAL_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with ExitStack() as held:
            try:
                _require_valid_address(scope)
                if scope["method"] in _BODY_METHODS or _announces_body(scope):
                    receive = replay_body(await self._body(scope, receive, held), receive)
            except (BodyTooLarge, TooMuchAtOnce) as exc:
                await drain_body(receive, most_octets=_MAX_DRAINED_BYTES, seconds=_DRAIN_TIMEOUT_SECONDS)
                await self._render_refusal(exc, scope)(scope, receive, send)
                return
            except AdmitError as exc:
                await self._render_refusal(exc, scope)(scope, receive, send)
                return
            await self._app(scope, receive, send)

    def _render_refusal(self, exc: AdmitError, scope: Scope) -> ASGIApp:
        path: str = scope["path"]
        return self._on_page(exc, path) if self._pages.routes_of(path) else render_error(exc)

    async def _body(self, scope: Scope, receive: Receive, held: ExitStack) -> bytes:
        """Read the body. A large body counts toward the memory limit until the stack `held` closes."""
        found = self._index.routes_of(scope["path"])
        asked = [route for route in found if scope["method"] in (route.methods or ())]
        is_open = not any(id(route) in self._caller_route_ids for route in asked)
        if not is_open and _announces_body(scope):
            await self._require_caller(scope, receive)
        takes = self._takes(scope, of_strangers=bool(asked) and is_open)
        _require_plain_body(scope)
        size = _bound_body_size(scope, most=takes.most_bytes)
        if size > _MAX_INLINE_BYTES:
            held.enter_context(self._held.holding((scope.get("client") or ("",))[0], size))
        body = await read_body(scope, receive, most_octets=takes.most_bytes, seconds=BODY_TIMEOUT_SECONDS)
        if self._has_routes and not asked and takes.json:
            # The application reports the unknown path or method.
            return body
        if body and asked and not any(map(_reads_body, asked)):
            if body.strip() not in _EMPTY_BODIES:
                raise BodyNotRead(place="body", remedy="Omit the body. Send parameters only in path and query.")
        elif body and takes.json and scope["method"] in _BODY_METHODS:
            _require_json_type(scope)
            if body.strip() == b"null" and any(map(_has_optional_body, asked)):
                # Generated Go clients send `null` instead of no body.
                return b""
            if len(body) < _MAX_INLINE_BYTES:
                check_json(body)
            else:
                await to_thread.run_sync(check_json, body, limiter=self._checkers)
        return body

    async def _require_caller(self, scope: Scope, receive: Receive) -> None:
        try:
            await self._authenticate(scope)
        except AdmitError:
            await drain_body(receive, most_octets=_MAX_DRAINED_BYTES, seconds=_DRAIN_TIMEOUT_SECONDS)
            raise

    def _takes(self, scope: Scope, *, of_strangers: bool) -> BodyRule:
        for takes in self._rules:
            path: str = scope["path"]
            if takes.method == scope["method"] and takes.path.match(path.removeprefix(takes.prefix)):
                return takes
        return _PUBLIC_RULE if of_strangers else _DEFAULT_RULE


def _announces_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _bound_body_size(scope: Scope, *, most: int) -> int:
    """Maximum size of the body in bytes, by Content-Length and the limit of the route."""
    said = next((value for value in _list_header_values(scope, b"content-length")), b"")
    return min(int(said), most) if said.isdigit() and len(said) < _MAX_NUMBER_CHARACTERS else most


def _reads_body(route: BaseRoute) -> bool:
    extra: Mapping[str, Any] = getattr(route, "openapi_extra", None) or {}
    return getattr(route, "body_field", None) is not None or "requestBody" in extra


def _has_optional_body(route: BaseRoute) -> bool:
    field = getattr(route, "body_field", None)
    return field is not None and not field.field_info.is_required()


_DEFAULT_RULE = BodyRule("", "", re.compile(""), MAX_BODY_BYTES, json=True)
_PUBLIC_RULE = _DEFAULT_RULE._replace(most_bytes=MAX_PUBLIC_BODY_BYTES)


def check_json(body: bytes) -> None:
    """Raises NotJson, TextRefused or InvalidInput if the body is not valid, bounded JSON."""
    _require_shallow(body)
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_build_object,
            parse_constant=_reject_constant,
            parse_int=_parse_integer,
            parse_float=_parse_decimal,
        )
    except UnicodeDecodeError as exc:
        raise NotJson("The body is not UTF-8.", place="body") from exc
    except json.JSONDecodeError as exc:
        raise NotJson(f"{exc.msg}.", place=f"body, line {exc.lineno}, column {exc.colno}") from exc
    if b"\\u" in body:
        _require_text(value)


def _require_shallow(body: bytes) -> None:
    depth = 0
    # Text outside strings. A regular expression would need a hundred bytes for each character of a string.
    parts = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if parts.count(b'"') > 4 * _MAX_VALUES:
        raise _build_too_many_values()
    plain = b"".join(parts.split(b'"')[::2])
    if sum(map(plain.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise _build_too_many_values()
    for bracket in plain.translate(None, _NON_BRACKETS):
        depth += 1 if bracket in _OPENING_BRACKETS else -1
        if depth < 0:
            raise NotJson("A closing bracket has no opening bracket.", place="body")
        if depth > _MAX_DEPTH:
            raise InvalidInput(f"The body is nested more than {_MAX_DEPTH} levels deep.", place="body")


def _build_too_many_values() -> InvalidInput:
    return InvalidInput(f"The body has more than {_MAX_VALUES} values.", place="body", remedy="Send smaller requests.")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) > _MAX_NAMES:
        raise InvalidInput(f"An object has more than {_MAX_NAMES} names.", place="body")
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidInput("The object has this name twice.", place=f"body: {ascii(twice)[:100]}")
    return found


def _reject_constant(name: str) -> None:
    raise NotJson(f"{name} is not a JSON number.", place="body")


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_NUMBER_CHARACTERS:
        raise InvalidInput("A number is too large.", place="body")
    return int(text)


def _parse_decimal(text: str) -> float:
    value = float(text)
    if math.isinf(value) or len(text) > _MAX_DECIMAL_CHARACTERS:
        raise InvalidInput("A number is too large.", place="body")
    return value


def _require_text(value: object) -> None:
    """Raise TextRefused for escaped characters that PostgreSQL cannot store."""
    match value:
        case str():
            if _INVALID_TEXT.search(value):
                raise TextRefused("A text contains NUL or half of a surrogate pair.", place="body")
        case dict():
            for name, each in value.items():
                _require_text(name)
                _require_text(each)
        case list():
            for each in value:
                _require_text(each)
        case _:
            return


def _require_json_type(scope: Scope) -> None:
    kinds = _list_header_values(scope, b"content-type")
    kind, _, parameters = kinds[0].lower().partition(b";") if len(kinds) == 1 else (b"", b"", b"")
    kind = kind.strip()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise UnsupportedMediaType(place="Content-Type", remedy="Send the body with Content-Type: application/json")
    charset = _CHARSET.search(parameters)
    if charset and charset[1] not in _CHARSETS:
        raise UnsupportedMediaType(
            "JSON must be UTF-8 (RFC 8259 8.1).", place="Content-Type", remedy="Send the body in UTF-8."
        )


def _require_plain_body(scope: Scope) -> None:
    if any(
        coding.strip().lower() not in (b"", b"identity") for coding in _list_header_values(scope, b"content-encoding")
    ):
        raise UnsupportedMediaType(
            "Content-Encoding is not supported.", place="Content-Encoding", remedy="Send the body uncompressed."
        )


def _list_header_values(scope: Scope, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]


def _require_valid_address(scope: Scope) -> None:
    path = scope.get("raw_path") or b""
    for place, text in (("path", path), ("query", scope["query_string"])):
        if b"%00" in text or b"\0" in text:
            raise TextRefused(f"The {place} contains NUL.", place=place, remedy="Remove the NUL.")
    # After decoding, %2F would be a slash, and the path would select another route.
    if b"%2f" in path.lower():
        raise TextRefused(
            "The path contains %2F.", place="path", remedy="If a name contains a slash, use the id instead of the name."
        )
