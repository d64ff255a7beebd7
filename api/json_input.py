"""What is read of a request before a route sees it: bounded in bytes, time and depth, and of the form that it says.

A route takes JSON of at most 1 MiB, or 16 KiB where anyone may call it. Where it takes more, or another form, it says
so in `openapi_extra`. Where a route needs a caller, nothing is read until that caller is authenticated.
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

from api.bodies import PATIENCE_SECONDS, BodyTooLarge, Held, TooMuchAtOnce, drain, read_body, replay
from api.errors import render
from api.route_index import RouteIndex
from nac.errors import AdmitError, InvalidInput

MOST_BYTES = 1024 * 1024
MOST_OF_STRANGERS: Final = 16 * 1024
_MOST = "x-most-bytes"
_DRAINED_BYTES = 24 * 1024 * 1024
_DRAINED_SECONDS = 5.0
# Whoever sends is not known before all has come: those that send much and slowly would fill the memory.
_HELD_OF_SOURCE: Final = 64 * 1024 * 1024
_HELD_IN_ALL: Final = 256 * 1024 * 1024
_DEEPEST = 64
# In some 5 ms: more of it is looked at beside what other requests wait for.
_AT_ONCE_BYTES = 64 * 1024
# Threads of its own: those that routes are done in may all be held up.
_CHECKERS = 2
# Of 64 bits, with a sign; a list or table of PostgreSQL holds no longer ones.
_LONGEST_NUMBER = 20
# Each takes some hundred bytes once it is read, however short it is written.
_MOST_VALUES = 500_000
# No object has a tenth as many, and each that is unknown is a mistake of its own.
_MOST_NAMES = 10_000
_LONGEST_DECIMAL = 40
_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
# What clients send that always send something.
_SAYS_NOTHING = {b"", b"{}", b"null"}
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NOT_NESTING = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = b"[{"
_CHARSET = re.compile(rb'charset\s*=\s*"?([^\s";]*)')
# As JSON is read; the other is a part of it.
_CHARSETS = {b"utf-8", b"utf8", b"us-ascii"}


class UnsupportedMediaType(AdmitError):
    """The body is of another form than is read here."""

    status = 415


class NotJson(InvalidInput):
    """The body is not JSON."""


class TextRefused(InvalidInput):
    """There is a character that no text may have here."""


class BodyNotRead(AdmitError):
    """Nothing is read of a body here."""

    status = 400


class Takes(NamedTuple):
    """What a route takes otherwise than the others."""

    method: str
    # What is before the route's own path is `prefix`.
    prefix: str
    path: re.Pattern[str]
    most_bytes: int
    json: bool


def takes(*, most_bytes: int, media_type: str = "", example: str = "") -> dict[str, Any]:
    """Of a route's `openapi_extra`: a body of so many bytes, and of another form than JSON where one is named."""
    extra: dict[str, Any] = {_MOST: most_bytes}
    if media_type:
        schema = {"type": "string", "format": "binary"}
        content = {"schema": schema, **({"example": example} if example else {})}
        extra["requestBody"] = {"required": True, "content": {media_type: content}}
    return extra


def exceptions(routes: Iterable[object], *, prefix: str = "") -> Iterator[Takes]:
    for route in routes:
        extra: Mapping[str, Any] = getattr(route, "openapi_extra", None) or {}
        content = extra.get("requestBody", {}).get("content", {"application/json": {}})
        if isinstance(route, APIRoute) and (_MOST in extra or "application/json" not in content):
            for method in route.methods or ():
                most = int(extra.get(_MOST, MOST_BYTES))
                yield Takes(method, prefix, route.path_regex, most, "application/json" in content)


async def _trust(scope: Scope) -> None:
    return


class JsonInput:
    """Answers with 408, 413, 415 or 422 itself; else passes on what it has read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        excepted: Iterable[Takes] = (),
        routes: Iterable[BaseRoute] = (),
        pages: Iterable[BaseRoute] = (),
        on_page: Callable[[AdmitError, str], ASGIApp] = lambda exc, path: render(exc),
        needs_caller: Callable[[APIRoute], bool] = lambda route: False,
        authenticate: Callable[[Scope], Awaitable[None]] = _trust,
    ) -> None:
        """`routes` refuse a body where they read none; others may read any. What is wrong is told on a page where one
        of `pages` was asked for, which `on_page` makes for its path. `authenticate` raises for an unknown caller of a
        route that `needs_caller`."""
        self._app = app
        self._excepted = tuple(excepted)
        known = tuple(routes)
        self._has_routes = bool(known)
        self._index = RouteIndex(known)
        self._of_callers = {id(route) for route in known if isinstance(route, APIRoute) and needs_caller(route)}
        self._pages = RouteIndex(pages)
        self._on_page = on_page
        self._authenticate = authenticate
        self._checkers = CapacityLimiter(_CHECKERS)
        self._held = Held(of_source=_HELD_OF_SOURCE, in_all=_HELD_IN_ALL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with ExitStack() as held:
            try:
                _require_plain_address(scope)
                if scope["method"] in _WITH_BODY or _tells_of_a_body(scope):
                    receive = replay(await self._body(scope, receive, held), receive)
            except (BodyTooLarge, TooMuchAtOnce) as exc:
                await drain(receive, most_octets=_DRAINED_BYTES, seconds=_DRAINED_SECONDS)
                await self._tell(exc, scope)(scope, receive, send)
                return
            except AdmitError as exc:
                await self._tell(exc, scope)(scope, receive, send)
                return
            await self._app(scope, receive, send)

    def _tell(self, exc: AdmitError, scope: Scope) -> ASGIApp:
        path: str = scope["path"]
        return self._on_page(exc, path) if self._pages.routes_of(path) else render(exc)

    async def _body(self, scope: Scope, receive: Receive, held: ExitStack) -> bytes:
        """Held as long as `held`."""
        found = self._index.routes_of(scope["path"])
        asked = [route for route in found if scope["method"] in (route.methods or ())]
        is_open = not any(id(route) in self._of_callers for route in asked)
        if not is_open and _tells_of_a_body(scope):
            await self._require_caller(scope, receive)
        takes = self._takes(scope, of_strangers=bool(asked) and is_open)
        _require_plain_body(scope)
        size = _said_size(scope, most=takes.most_bytes)
        if size > _AT_ONCE_BYTES:
            held.enter_context(self._held.holding((scope.get("client") or ("",))[0], size))
        body = await read_body(scope, receive, most_octets=takes.most_bytes, seconds=PATIENCE_SECONDS)
        if self._has_routes and not asked and takes.json:
            # Whatever is in it: that there is no such method or address is told behind this.
            return body
        if body and asked and not any(map(_reads_body, asked)):
            if body.strip() not in _SAYS_NOTHING:
                raise BodyNotRead(place="body", remedy="Leave it out: all that can be said is in path and query.")
        elif body and takes.json and scope["method"] in _WITH_BODY:
            _require_json_type(scope)
            if body.strip() == b"null" and any(map(_may_leave_out, asked)):
                # Clients that are generated for Go send it in place of no body.
                return b""
            if len(body) < _AT_ONCE_BYTES:
                check_json(body)
            else:
                await to_thread.run_sync(check_json, body, limiter=self._checkers)
        return body

    async def _require_caller(self, scope: Scope, receive: Receive) -> None:
        try:
            await self._authenticate(scope)
        except AdmitError:
            await drain(receive, most_octets=_DRAINED_BYTES, seconds=_DRAINED_SECONDS)
            raise

    def _takes(self, scope: Scope, *, of_strangers: bool) -> Takes:
        for takes in self._excepted:
            path: str = scope["path"]
            if takes.method == scope["method"] and takes.path.match(path.removeprefix(takes.prefix)):
                return takes
        return _OF_STRANGERS if of_strangers else _USUAL


def _tells_of_a_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _said_size(scope: Scope, *, most: int) -> int:
    """What a body has at most."""
    said = next((value for value in _given(scope, b"content-length")), b"")
    return min(int(said), most) if said.isdigit() and len(said) < _LONGEST_NUMBER else most


def _reads_body(route: BaseRoute) -> bool:
    extra: Mapping[str, Any] = getattr(route, "openapi_extra", None) or {}
    return getattr(route, "body_field", None) is not None or "requestBody" in extra


def _may_leave_out(route: BaseRoute) -> bool:
    field = getattr(route, "body_field", None)
    return field is not None and not field.field_info.is_required()


_USUAL = Takes("", "", re.compile(""), MOST_BYTES, json=True)
_OF_STRANGERS = _USUAL._replace(most_bytes=MOST_OF_STRANGERS)


def check_json(body: bytes) -> None:
    """Raises NotJson, TextRefused or InvalidInput for what a careless reader would stumble over."""
    _require_shallow(body)
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_int=_whole,
            parse_float=_decimal,
        )
    except UnicodeDecodeError as exc:
        raise NotJson("It is not UTF-8.", place="body") from exc
    except json.JSONDecodeError as exc:
        raise NotJson(f"{exc.msg}.", place=f"body, line {exc.lineno}, column {exc.colno}") from exc
    if b"\\u" in body:
        _require_text(value)


def _require_shallow(body: bytes) -> None:
    depth = 0
    # What is outside of strings. A pattern for strings would remember each of their characters, at a hundred bytes.
    parts = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if parts.count(b'"') > 4 * _MOST_VALUES:
        raise _too_many()
    plain = b"".join(parts.split(b'"')[::2])
    if sum(map(plain.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise _too_many()
    for bracket in plain.translate(None, _NOT_NESTING):
        depth += 1 if bracket in _OPENING else -1
        if depth < 0:
            raise NotJson("A bracket is closed that was not opened.", place="body")
        if depth > _DEEPEST:
            raise InvalidInput(f"It is nested more than {_DEEPEST} deep.", place="body")


def _too_many() -> InvalidInput:
    return InvalidInput(f"It has more than {_MOST_VALUES} values.", place="body", remedy="Send it in parts.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) > _MOST_NAMES:
        raise InvalidInput(f"An object has more than {_MOST_NAMES} names.", place="body")
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidInput("The name is given twice.", place=f"body: {ascii(twice)[:100]}")
    return found


def _refuse_constant(name: str) -> None:
    raise NotJson(f"{name} is no number of JSON.", place="body")


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise InvalidInput("A number is too large.", place="body")
    return int(text)


def _decimal(text: str) -> float:
    value = float(text)
    if math.isinf(value) or len(text) > _LONGEST_DECIMAL:
        raise InvalidInput("A number is too large.", place="body")
    return value


def _require_text(value: object) -> None:
    """Of what JSON's escapes can write and no text of PostgreSQL can hold."""
    match value:
        case str():
            if _NO_TEXT.search(value):
                raise TextRefused("NUL, or half of a surrogate pair.", place="body")
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
    kinds = _given(scope, b"content-type")
    kind, _, parameters = kinds[0].lower().partition(b";") if len(kinds) == 1 else (b"", b"", b"")
    kind = kind.strip()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise UnsupportedMediaType(place="Content-Type", remedy="Send it as: Content-Type: application/json")
    charset = _CHARSET.search(parameters)
    if charset and charset[1] not in _CHARSETS:
        raise UnsupportedMediaType("JSON is read as UTF-8 (RFC 8259 8.1).", place="Content-Type", remedy="Use UTF-8.")


def _require_plain_body(scope: Scope) -> None:
    if any(coding.strip().lower() not in (b"", b"identity") for coding in _given(scope, b"content-encoding")):
        raise UnsupportedMediaType(
            "Nothing is unpacked.", place="Content-Encoding", remedy="Send the body as it is, without that header."
        )


def _given(scope: Scope, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]


def _require_plain_address(scope: Scope) -> None:
    path = scope.get("raw_path") or b""
    for place, text in (("path", path), ("query", scope["query_string"])):
        if b"%00" in text or b"\0" in text:
            raise TextRefused("There is NUL, which no text may have here.", place=place, remedy="Leave it out.")
    # Read as a slash it would lead to another route than the one that is written.
    if b"%2f" in path.lower():
        raise TextRefused("A slash is written as %2F.", place="path", remedy="No name in a path has one.")
