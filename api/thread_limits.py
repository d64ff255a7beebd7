"""Limits the wait for a thread to the wait for a database connection.

A thread holds a connection or waits for one, so more threads would not help. If all of them are blocked, for example by
a locked table, later requests fail in time and before they start.
"""

from asyncio import CancelledError, Semaphore, get_running_loop, timeout, wrap_future
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, asynccontextmanager
from copy import copy
from inspect import iscoroutinefunction
from typing import Final, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.application_state import get_owner_shares, get_request_limit, get_settings, get_wait_seconds
from api.bodies import BODY_TIMEOUT_SECONDS, read_body, replay_body
from api.credential_rate_limit import get_known_owner
from nac.kit.db import MAX_CONNECTIONS, limit_waiting
from nac.kit.errors import AdmitError, ConnectionsInUse

_BUSY_REMEDY: Final = "Try again in some seconds."
# Concurrent requests of one owner (tenant, MSP, person). Half of the connections remain for others.
MAX_OWNER_REQUESTS = MAX_CONNECTIONS // 2
_SHARE_KEY: Final = "admit.share"
Result = TypeVar("Result")


async def run_in_thread(
    threads: Executor | None,
    work: Callable[[Request], Result],
    request: Request,
    *,
    wait_seconds: float | None = None,
    began: float | None = None,
) -> Result:
    """Run `work` in a thread and return its result.

    `wait_seconds` limits the wait for PostgreSQL from `began` (loop clock, default now); the default is that of all
    requests. Raises ConnectionsInUse if no thread could start it in time.
    """
    loop = get_running_loop()
    began = loop.time() if began is None else began

    def bounded() -> Result:
        with limit_waiting(wait_seconds or get_wait_seconds(request), spent=loop.time() - began):
            return work(request)

    if threads is None:
        return await loop.run_in_executor(None, bounded)
    turn = threads.submit(bounded)
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        # Running work is not cancelled.
        is_late = turn.cancel()

    timer = loop.call_at(began + get_settings(request).api_database_wait_seconds, give_up)
    try:
        return await wrap_future(turn)
    except CancelledError:
        if not is_late:
            raise
        raise ConnectionsInUse(remedy=_BUSY_REMEDY) from None
    finally:
        timer.cancel()


class _OwnerShare:
    """A place of the owner's concurrent requests; `places` is None while the owner is unknown."""

    def __init__(self, places: Semaphore | None) -> None:
        self._places = places
        self.loop = get_running_loop()

    def leave(self) -> None:
        """Free the place. Further calls do nothing."""
        if self._places is not None:
            self._places.release()
            self._places = None


async def _acquire_share(request: Request) -> _OwnerShare:
    """Take a place of the owner. Waiting requests hold no thread."""
    owner = get_known_owner(request.scope)
    places = None if owner is None else get_owner_shares(request).setdefault(owner, Semaphore(MAX_OWNER_REQUESTS))
    if places is not None:
        await places.acquire()
    share = request.scope[_SHARE_KEY] = _OwnerShare(places)
    return share


@asynccontextmanager
async def hold_share(request: Request) -> AsyncIterator[None]:
    """Hold a place of the owner. Raises ConnectionsInUse."""
    try:
        async with timeout(get_settings(request).api_database_wait_seconds):
            share = await _acquire_share(request)
    except TimeoutError as exc:
        raise ConnectionsInUse(remedy=_BUSY_REMEDY) from exc
    try:
        yield
    finally:
        share.leave()


def release_share(request: Request) -> None:
    """Free the owner's place, from a thread that will wait and seldom needs a connection."""
    share: _OwnerShare | None = request.scope.get(_SHARE_KEY)
    if share is not None:
        share.loop.call_soon_threadsafe(share.leave)


class LimitedRoute:
    """Limits concurrent requests of routes that use threads, so that no request waits for a thread halfway."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        whose: str = "",
        refused: Callable[[AdmitError], ASGIApp] | None = None,
        most_octets: int = 0,
    ) -> None:
        """`whose` names the application's room. `refused` renders the error of a full room; None raises it.

        A body of up to `most_octets` bytes is read before the request takes a place; 0 if it was read already.
        """
        self._app = app
        self._whose = whose
        self._refused = refused
        self._most_octets = most_octets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ConnectionsInUse without `refused`, and as `read_body`."""
        request = Request(scope)
        if self._most_octets:
            body = await read_body(scope, receive, most_octets=self._most_octets, seconds=BODY_TIMEOUT_SECONDS)
            receive = replay_body(body, receive)
        room = get_request_limit(request, self._whose)
        if room is None:
            await self._app(scope, receive, send)
            return
        began = get_running_loop().time()
        with ExitStack() as places:
            try:
                async with timeout(get_settings(request).api_database_wait_seconds):
                    places.callback((await _acquire_share(request)).leave)
                    await room.acquire()
                    places.callback(room.release)
            except TimeoutError as exc:
                full = ConnectionsInUse(remedy=_BUSY_REMEDY)
                if self._refused is None:
                    raise full from exc
                await self._refused(full)(scope, receive, send)
                return

            async def sent(message: Message) -> None:
                # Before sending, because the client may read slowly.
                places.close()
                await send(message)

            with limit_waiting(get_wait_seconds(request), spent=get_running_loop().time() - began):
                await self._app(scope, receive, sent)


def limit_routes(
    routes: Iterable[BaseRoute],
    *,
    whose: str = "",
    refused: Callable[[AdmitError], ASGIApp] | None = None,
    most_octets: int = 0,
) -> Iterator[BaseRoute]:
    """The same routes with InRoom, except `async` ones, which do no I/O and use no thread.

    `whose`, `refused` and `most_octets` as in InRoom.
    """
    for route in routes:
        if isinstance(route, APIRoute) and not iscoroutinefunction(route.endpoint):
            bounded = copy(route)
            bounded.app = LimitedRoute(route.app, whose=whose, refused=refused, most_octets=most_octets)
            yield bounded
        else:
            yield route
