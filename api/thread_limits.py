"""Turns: nobody waits for a thread longer than for a connection to the database.

A thread that does something for a request holds a connection, or waits for one, so that many more threads would help
nobody. Where all of them are held up (a table is locked, say), who comes later is told so in time, and nothing of what
he asks for is begun.
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
from nac.db import CONNECTIONS_MOST, wait_budget
from nac.errors import AdmitError, ConnectionsInUse

_BUSY_REMEDY: Final = "Try again in some seconds."
# Requests of one owner (a tenant, an MSP, a person) at a time: half of the connections are left to the others.
MAX_OWNER_REQUESTS = CONNECTIONS_MOST // 2
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
    """What `work` comes to. It waits for PostgreSQL for `wait_seconds`, or as long as any request, since `began` (of
    the loop's clock; now). Raises ConnectionsInUse where no thread could begin with it in time."""
    loop = get_running_loop()
    began = loop.time() if began is None else began

    def bounded() -> Result:
        with wait_budget(wait_seconds or get_wait_seconds(request), spent=loop.time() - began):
            return work(request)

    if threads is None:
        return await loop.run_in_executor(None, bounded)
    turn = threads.submit(bounded)
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        # What was begun is not given up.
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
    """One of the requests that an owner may have at a time; None for an owner that is not known yet."""

    def __init__(self, places: Semaphore | None) -> None:
        self._places = places
        self.loop = get_running_loop()

    def leave(self) -> None:
        """Again does nothing."""
        if self._places is not None:
            self._places.release()
            self._places = None


async def _acquire_share(request: Request) -> _OwnerShare:
    """Requests beyond it wait here, where they take no thread."""
    owner = get_known_owner(request.scope)
    places = None if owner is None else get_owner_shares(request).setdefault(owner, Semaphore(MAX_OWNER_REQUESTS))
    if places is not None:
        await places.acquire()
    share = request.scope[_SHARE_KEY] = _OwnerShare(places)
    return share


@asynccontextmanager
async def hold_share(request: Request) -> AsyncIterator[None]:
    """Raises ConnectionsInUse."""
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
    """From a thread, which from now on waits and seldom needs a connection."""
    share: _OwnerShare | None = request.scope.get(_SHARE_KEY)
    if share is not None:
        share.loop.call_soon_threadsafe(share.leave)


class LimitedRoute:
    """A route's application, which takes a thread for each of its steps: as many requests at a time as there are
    threads, so that none waits for one in the middle of what it does."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        whose: str = "",
        refused: Callable[[AdmitError], ASGIApp] | None = None,
        most_octets: int = 0,
    ) -> None:
        """`whose` room of the application's it is. `refused` says that there is none left; None where whoever calls
        does. A body of `most_octets` is read before: however slowly it comes, it takes nobody's place; 0 where that was
        done already."""
        self._app = app
        self._whose = whose
        self._refused = refused
        self._most_octets = most_octets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ConnectionsInUse, unless that is told here, and as `read_body`."""
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
                # However long whoever asked takes to read it.
                places.close()
                await send(message)

            with wait_budget(get_wait_seconds(request), spent=get_running_loop().time() - began):
                await self._app(scope, receive, sent)


def limit_routes(
    routes: Iterable[BaseRoute],
    *,
    whose: str = "",
    refused: Callable[[AdmitError], ASGIApp] | None = None,
    most_octets: int = 0,
) -> Iterator[BaseRoute]:
    """The same routes, each once there is room for it; one that is `async` does no I/O, and takes no thread.
    `whose`, `refused` and `most_octets` as of InRoom."""
    for route in routes:
        if isinstance(route, APIRoute) and not iscoroutinefunction(route.endpoint):
            bounded = copy(route)
            bounded.app = LimitedRoute(route.app, whose=whose, refused=refused, most_octets=most_octets)
            yield bounded
        else:
            yield route
