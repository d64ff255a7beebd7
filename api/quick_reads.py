"""Runs reads in one thread.

FastAPI resolves dependencies one by one, checks every parameter, and uses a thread for each function that is not
`async`. For a lookup that is most of the work. Here one thread resolves the dependencies, runs the route and serialises
its JSON. This applies to GET routes with authentication (api.access).

FastAPI handles all other routes, and invalid requests of these.
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

from api.application_state import get_read_threads
from api.caller import allow_session_reuse, require_caller, require_credential
from api.instant_dependencies import is_instant, resolve_function, run_instant
from api.thread_limits import LimitedRoute, hold_share, run_in_thread

ArgumentValues = dict[str, Any]
# Each request needs its own copy of a default of another type.
_IMMUTABLE_TYPES: Final = (str, int, bool, type(None))
_READ_METHODS: Final = {"GET"}


class _InvalidParameters(Exception):
    """Invalid parameters; FastAPI handles the request and reports them."""


@dataclass(frozen=True, slots=True)
class _CallStep:
    """A dependency of the route, or the route itself."""

    call: Callable[..., Any]
    is_async: bool
    # Parameters whose values are results of earlier steps: name and number of the step.
    step_arguments: tuple[tuple[str, int], ...]
    path: list[Any]
    query: dict[str, Any]
    # Query parameters that are always validated, and the default values of the others.
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
    """Steps of a route, in order."""

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
        # A shared dependency runs once.
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
        """Run in a thread. Raises _Mistaken before the first step."""
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
    """Application of a route that runs in one thread."""

    def __init__(self, route: APIRoute) -> None:
        self._route = route
        self._fallback_app: ASGIApp = LimitedRoute(route.app)

    @cached_property
    def _plan(self) -> _RoutePlan:
        """Built on the first request, because most of the hundreds of routes are never used."""
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
    """InRoom that rejects requests without a credential before they take a place."""

    def __init__(self, route: APIRoute) -> None:
        super().__init__(route.app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises NotSignedIn and as InRoom."""
        require_credential(scope)
        await super().__call__(scope, receive, send)


def use_quick_reads(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """The same routes; eligible ones run in one thread, others when they have a place."""
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
    """Whether the route authenticates its caller."""
    return any(each.call is require_caller for each in _walk_dependants(route.dependant))


def is_quick(route: APIRoute) -> bool:
    """Whether the route reads, authenticates its caller, and uses no feature that only FastAPI implements."""
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
