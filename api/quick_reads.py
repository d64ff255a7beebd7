"""Reads in one turn of a thread.

FastAPI solves what a route depends on one by one, looks at each parameter whether it is given or not, and takes a turn
of its thread pool for each function that is not `async`: of a look-up that is most of the work. A route that reads and
asks who may (api.access) is answered here: its parameters are read by FastAPI's own function, and what it depends on,
the route itself and its JSON are made in one go, by one of a few threads.

All the rest is FastAPI's: other routes, and each request that has a mistake in it, which it tells as ever.
"""

from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Final

from fastapi import Request, Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_params_to_args
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access import require_caller, require_credential
from api.application_state import get_read_threads
from api.instant_dependencies import is_instant, resolve_function, run_instant
from api.session_reuse import allow_session_reuse
from api.thread_limits import LimitedRoute, hold_share, run_in_thread

ArgumentValues = dict[str, Any]
# A default of another kind is one that each request has a copy of.
_IMMUTABLE_TYPES: Final = (str, int, bool, type(None))
_READ_METHODS: Final = {"GET"}


class _InvalidParameters(Exception):
    """FastAPI tells what is wrong."""


@dataclass(frozen=True, slots=True)
class _CallStep:
    """A function that the route depends on, or the route itself."""

    call: Callable[..., Any]
    is_async: bool
    # Parameters of it that are what steps before it gave, by their number.
    step_arguments: tuple[tuple[str, int], ...]
    path: list[Any]
    query: dict[str, Any]
    # Of the query, names of those that are looked at also where they are not given, and values of the others.
    always: frozenset[str]
    defaults: ArgumentValues
    request_name: str | None
    response_name: str | None

    def read(self, request: Request, given: Mapping[str, str]) -> ArgumentValues:
        """Raises _Mistaken."""
        values = self.defaults.copy()
        if self.path:
            values |= _read_fields(self.path, request.path_params)
        if self.query and (given or self.always):
            wanted = [field for name, field in self.query.items() if name in given or name in self.always]
            if wanted:
                values |= _read_fields(wanted, request.query_params)
        return values


def _read_fields(fields: list[Any], given: Mapping[str, Any]) -> ArgumentValues:
    values, mistakes = request_params_to_args(fields, given)
    if mistakes:
        raise _InvalidParameters
    return values


class _RoutePlan:
    """What is to be done for a route, in its order."""

    def __init__(self, route: APIRoute) -> None:
        self._steps: list[_CallStep] = []
        self._numbers: dict[object, int] = {}
        self._add(route.dependant)
        self._field: Any = route.response_field
        self._status = route.status_code

    def _add(self, dependant: Dependant) -> int:
        call = dependant.call
        assert call is not None
        of_steps = tuple((each.name or "", self._add(each)) for each in dependant.dependencies)
        # What several depend on is done once.
        if call in self._numbers:
            return self._numbers[call]
        query = {field.alias: field for field in dependant.query_params}
        always = frozenset(name for name, field in query.items() if not _has_plain_default(field))
        step = _CallStep(
            call=call,
            is_async=_is_async(call),
            step_arguments=tuple((name, number) for name, number in of_steps if name),
            path=list(dependant.path_params),
            query=query,
            always=always,
            defaults={field.name: field.default for name, field in query.items() if name not in always},
            request_name=dependant.request_param_name or dependant.http_connection_param_name,
            response_name=dependant.response_param_name,
        )
        self._numbers[call] = len(self._steps)
        self._steps.append(step)
        return self._numbers[call]

    def answer(self, request: Request) -> Response:
        """In a thread. Raises _Mistaken before anything was done."""
        given = request.query_params
        arguments = [step.read(request, given) for step in self._steps]
        with allow_session_reuse(request.scope):
            return self._answer(request, arguments)

    def _answer(self, request: Request, arguments: list[ArgumentValues]) -> Response:
        response = Response()
        del response.headers["content-length"]
        response.status_code = 0
        results: list[Any] = []
        for step, values in zip(self._steps, arguments, strict=True):
            for name, number in step.step_arguments:
                values[name] = results[number]
            if step.request_name:
                values[step.request_name] = request
            if step.response_name:
                values[step.response_name] = response
            result = step.call(**values)
            results.append(run_instant(result) if step.is_async else result)
        shown = results[-1]
        if isinstance(shown, Response):
            return shown
        return self._made(shown, response)

    def _made(self, shown: object, noted: Response) -> Response:
        value, mistakes = self._field.validate(shown, {}, loc=("response",))
        assert not mistakes, mistakes
        status = self._status or noted.status_code or 200
        answer = Response(self._field.serialize_json(value), status, media_type="application/json")
        answer.raw_headers.extend(noted.raw_headers)
        return answer


class _QuickRoute:
    """A route's own application."""

    def __init__(self, route: APIRoute) -> None:
        self._route = route
        self._fallback_app: ASGIApp = LimitedRoute(route.app)

    @cached_property
    def _plan(self) -> _RoutePlan:
        """Made with the first request: few of hundreds of routes are ever asked for."""
        return _RoutePlan(self._route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_credential(scope)
        request = Request(scope, receive, send)
        began = get_running_loop().time()
        try:
            async with hold_share(request):
                answer = await run_in_thread(get_read_threads(request), self._plan.answer, request, began=began)
        except _InvalidParameters:
            await self._fallback_app(scope, receive, send)
            return
        await answer(scope, receive, send)


class _CredentialRoute(LimitedRoute):
    """Who shows nothing is refused before there is room."""

    def __init__(self, route: APIRoute) -> None:
        super().__init__(route.app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises as InRoom, and NotSignedIn."""
        require_credential(scope)
        await super().__call__(scope, receive, send)


def use_quick_reads(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """The same routes; those that can be are answered in one turn, others once there is room for them."""
    for route in routes:
        if isinstance(route, APIRoute):
            bounded = copy(route)
            bounded.app = (
                _QuickRoute(route)
                if is_quick(route)
                else _CredentialRoute(route)
                if needs_caller(route)
                else LimitedRoute(route.app)
            )
            yield bounded
        else:
            yield route


def needs_caller(route: APIRoute) -> bool:
    """Whether it asks who may."""
    return any(each.call is require_caller for each in _walk_dependants(route.dependant))


def is_quick(route: APIRoute) -> bool:
    """Whether it reads, asks who may, and has nothing that only FastAPI does."""
    calls = list(_walk_dependants(route.dependant))
    return (
        route.methods == _READ_METHODS
        and isinstance(route.response_class, DefaultPlaceholder)
        and route.response_field is not None
        and route.body_field is None
        and not iscoroutinefunction(route.endpoint)
        and not any(
            (
                route.response_model_include,
                route.response_model_exclude,
                route.response_model_exclude_unset,
                route.response_model_exclude_defaults,
                route.response_model_exclude_none,
            )
        )
        and needs_caller(route)
        and all(map(_is_plain, calls))
    )


def _walk_dependants(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _walk_dependants(each)


def _is_plain(dependant: Dependant) -> bool:
    others = (
        dependant.header_params,
        dependant.cookie_params,
        dependant.body_params,
        dependant.background_tasks_param_name,
        dependant.websocket_param_name,
        dependant.security_scopes_param_name,
        dependant.concurrency,
    )
    return (
        not any(others)
        and all(field.validation_alias in (None, field.alias) for field in dependant.query_params)
        and dependant.call is not None
        and not _is_generator(dependant.call)
        and (is_instant(dependant.call) or not _is_async(dependant.call))
    )


def _has_plain_default(field: Any) -> bool:  # noqa: ANN401 -- a field of FastAPI
    info = field.field_info
    return (
        not info.is_required()
        and info.default_factory is None
        and not info.validate_default
        and isinstance(info.default, _IMMUTABLE_TYPES)
    )


def _is_async(call: object) -> bool:
    return iscoroutinefunction(resolve_function(call))


def _is_generator(call: object) -> bool:
    return isgeneratorfunction(resolve_function(call)) or isasyncgenfunction(resolve_function(call))
