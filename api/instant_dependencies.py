"""Functions that a route depends on, `async` since they do no I/O: FastAPI gives each other one a turn of a thread."""

from collections.abc import Awaitable, Callable
from inspect import isclass
from typing import Any, Final, TypeVar

_INSTANT_MARK: Final = "is_instant"

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


def instant(function: Function) -> Function:
    """Awaits nothing, so that whoever has no loop can call it too (`result_of`)."""
    setattr(function, _INSTANT_MARK, True)
    return function


def resolve_function(call: Any) -> Any:  # noqa: ANN401 -- whatever a route depends on
    """Where what is called is an object, that of its class."""
    return call if isclass(call) or hasattr(call, "__code__") else type(call).__call__


def is_instant(call: object) -> bool:
    return getattr(resolve_function(call), _INSTANT_MARK, False)


def run_instant(coroutine: Any) -> Any:  # noqa: ANN401 -- whatever a route depends on
    """Of an instant function."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"{coroutine} waits")
