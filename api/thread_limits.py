"""Limits the number of running requests, because each running request uses a thread.

A thread holds a database connection or waits for a database connection, so more threads would not help. If all threads
are blocked, for example by a locked table, later requests time out before they start.
"""

from asyncio import Semaphore, get_running_loop, timeout
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from inspect import iscoroutinefunction
from typing import Final, TypeVar

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.application_state import get_owner_shares, get_request_limit, get_settings, get_wait_seconds
from api.bodies import BODY_TIMEOUT_SECONDS, read_body, replay_body
from api.credential_rate_limit import get_known_owner
from nac.kit.db import MAX_CONNECTIONS, limit_waiting
from nac.kit.errors import AdmitError, ConnectionsInUse

_BUSY_REMEDY: Final = "Try again in a few seconds."
# Maximum number of running requests of one owner (tenant, MSP, person). Half of the connections remain for others.
MAX_OWNER_REQUESTS = MAX_CONNECTIONS // 2
_SHARE_KEY: Final = "admit.share"
Result = TypeVar("Result")


class _OwnerShare:
    """A running request that counts in the limit of its owner (tenant, MSP or person).

    `places` is the semaphore of the owner; None if the owner is unknown.
    """

    def __init__(self, places: Semaphore | None) -> None:
        self._places = places
        self.loop = get_running_loop()

    def leave(self) -> None:
        """Stop counting the request in the limit of the owner. Further calls do nothing."""
        if self._places is not None:
            self._places.release()
            self._places = None


async def _acquire_share(request: Request) -> _OwnerShare:
    """Wait until the owner can run one more request. A waiting request uses no thread."""
    owner = get_known_owner(request.scope)
    places = None if owner is None else get_owner_shares(request).setdefault(owner, Semaphore(MAX_OWNER_REQUESTS))
    if places is not None:
        await places.acquire()
    share = request.scope[_SHARE_KEY] = _OwnerShare(places)
    return share


async def _take_places(request: Request, whose: str = "") -> ExitStack:
    """Wait until one more request is within the limits of its owner (tenant, MSP or person) and of its group of routes.

    `whose` is the name of the group. Closing the returned stack stops counting the request.

    Raises ConnectionsInUse.
    """
    room = get_request_limit(request, whose)
    with ExitStack() as places:
        try:
            async with timeout(get_settings(request).api_database_wait_seconds):
                places.callback((await _acquire_share(request)).leave)
                if room is not None:
                    await room.acquire()
                    places.callback(room.release)
        except TimeoutError as exc:
            raise ConnectionsInUse(remedy=_BUSY_REMEDY) from exc
        return places.pop_all()


async def run_in_thread(work: Callable[[], Result], request: Request) -> Result:
    """Run `work` in a thread as soon as the limit of the request's owner permits one more request.

    Raises ConnectionsInUse.
    """
    began = get_running_loop().time()
    with await _take_places(request), _limit_waiting_since(began, request):
        return await run_in_threadpool(work)


def _limit_waiting_since(began: float, request: Request) -> AbstractContextManager[None]:
    """Limit the time that this request can use PostgreSQL. The time counts from `began` (clock of the event loop)."""
    return limit_waiting(get_wait_seconds(request), spent=get_running_loop().time() - began)


def release_share(request: Request) -> None:
    """Stop counting this request in the limit of the owner.

    Call this function in the request's thread, before the thread waits without a database connection.
    """
    share: _OwnerShare | None = request.scope.get(_SHARE_KEY)
    if share is not None:
        share.loop.call_soon_threadsafe(share.leave)


class LimitedRoute:
    """Limits running requests of a route that uses threads, so that a started request does not wait for a thread."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        whose: str = "",
        refused: Callable[[AdmitError], ASGIApp] | None = None,
        most_octets: int = 0,
    ) -> None:
        """`whose` is the name of a group of routes that share a limit.

        `refused` renders the error if the limit is reached. If `refused` is None, the route raises the error.

        The route reads a body of up to `most_octets` bytes before the request counts as running. If `most_octets` is 0,
        the middleware has already read the body.
        """
        self._app = app
        self._whose = whose
        self._refused = refused
        self._most_octets = most_octets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises the errors of `read_body`, and ConnectionsInUse if `refused` is None."""
        request = Request(scope)
        if self._most_octets:
            body = await read_body(scope, receive, most_octets=self._most_octets, seconds=BODY_TIMEOUT_SECONDS)
            receive = replay_body(body, receive)
        began = get_running_loop().time()
        try:
            places = await _take_places(request, self._whose)
        except ConnectionsInUse as full:
            if self._refused is None:
                raise
            await self._refused(full)(scope, receive, send)
            return

        async def send_without_places(message: Message) -> None:
            # The count ends before the response is sent, because the client may read slowly.
            places.close()
            await send(message)

        with places, _limit_waiting_since(began, request):
            await self._app(scope, receive, send_without_places)


def limit_routes(
    routes: Iterable[BaseRoute],
    *,
    whose: str = "",
    refused: Callable[[AdmitError], ASGIApp] | None = None,
    most_octets: int = 0,
) -> Iterator[BaseRoute]:
    """Yield the routes, each with a LimitedRoute.

    `async` routes get no limit, because they do no I/O and use no thread. See LimitedRoute for `whose`, `refused` and
    `most_octets`.
    """
    for route in routes:
        if isinstance(route, APIRoute) and not iscoroutinefunction(route.endpoint):
            bounded = copy(route)
            bounded.app = LimitedRoute(route.app, whose=whose, refused=refused, most_octets=most_octets)
            yield bounded
        else:
            yield route
