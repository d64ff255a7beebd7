"""Turns: nobody waits for a thread longer than for a connection to the database.

A thread that does something for a request holds a connection, or waits for one, so that many more threads would help
nobody. Where all of them are held up (a table is locked, say), who comes later is told so in time, and nothing of what
he asks for is begun.
"""

from asyncio import CancelledError, Semaphore, get_running_loop, timeout, wrap_future
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.state import room_of, settings_of
from nac.errors import ConnectionsInUse

_REMEDY: Final = "Try again in some seconds."
Result = TypeVar("Result")


async def in_turn(threads: Executor | None, work: Callable[[Request], Result], request: Request) -> Result:
    """What `work` comes to. Raises ConnectionsInUse where no thread could begin with it in time."""
    loop = get_running_loop()
    if threads is None:
        return await loop.run_in_executor(None, work, request)
    turn = threads.submit(work, request)
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        # What was begun is not given up.
        is_late = turn.cancel()

    timer = loop.call_later(settings_of(request).api_database_wait_seconds, give_up)
    try:
        return await wrap_future(turn)
    except CancelledError:
        if not is_late:
            raise
        raise ConnectionsInUse(remedy=_REMEDY) from None
    finally:
        timer.cancel()


class InRoom:
    """A route's application, which takes a thread for each of its steps: as many requests at a time as there are
    threads, so that none waits for one in the middle of what it does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ConnectionsInUse."""
        request = Request(scope)
        room = room_of(request)
        if room is None:
            await self._app(scope, receive, send)
            return
        try:
            async with timeout(settings_of(request).api_database_wait_seconds):
                await room.acquire()
        except TimeoutError as exc:
            raise ConnectionsInUse(remedy=_REMEDY) from exc
        place = _Place(room)

        async def sent(message: Message) -> None:
            # However long whoever asked takes to read it.
            place.leave()
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            place.leave()


class _Place:
    def __init__(self, room: Semaphore) -> None:
        self._room: Semaphore | None = room

    def leave(self) -> None:
        if self._room is not None:
            self._room.release()
            self._room = None
