"""Dependencies that are `async` because they do no I/O: FastAPI runs other functions in threads."""

from collections.abc import Awaitable, Callable
from inspect import isclass
from typing import Any, Final, TypeVar

_INSTANT_MARK: Final = "is_instant"

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


def instant(function: Function) -> Function:
    """Mark a function that awaits nothing, so that `result_of` can call it without an event loop."""
    setattr(function, _INSTANT_MARK, True)
    return function


def resolve_function(call: Any) -> Any:  # noqa: ANN401 -- whatever a route depends on
    """The function itself, or `__call__` of the object's class."""
    return call if isclass(call) or hasattr(call, "__code__") else type(call).__call__


def is_instant(call: object) -> bool:
    return getattr(resolve_function(call), _INSTANT_MARK, False)


def run_instant(coroutine: Any) -> Any:  # noqa: ANN401 -- whatever a route depends on
    """Result of an instant function's coroutine."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"{coroutine} waits")
