"""DNS lookups of customers' servers. Unanswered lookups do not delay others.

The system's lookup takes half a minute or more without an answer and cannot be cancelled, so it continues in its own
thread. The number of threads is bounded, with a much lower bound per owner. Concurrent lookups of a name share one
thread.
"""

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any, NamedTuple

_MAX_LOOKUPS = 128
_MAX_LOOKUPS_PER_OWNER = 4
_POLL_SECONDS = 0.05

# Result of socket.getaddrinfo.
AddressInfos = list[tuple[Any, ...]]


class _LookupKey(NamedTuple):
    owner: str
    host: str
    port: int


class NameResolver:
    def __init__(self, *, most: int = _MAX_LOOKUPS, most_of_one: int = _MAX_LOOKUPS_PER_OWNER) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._running: dict[_LookupKey, Future[AddressInfos]] = {}

    async def look_up(self, host: str, port: int, *, owner: str = "") -> AddressInfos:
        """Return TCP addresses. `owner` configured the host; "" is not limited.

        Waits as long as the system does, and for a free thread; the caller must limit the time. Raises OSError.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            lookup_key = _LookupKey(owner, host, port)
        while (lookup := self._begin(lookup_key)) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return await asyncio.wrap_future(lookup)

    def _begin(self, asked: _LookupKey) -> Future[AddressInfos] | None:
        """Return the running lookup or a new one; None if all threads are busy."""
        with self._lock:
            if asked in self._running:
                return self._running[asked]
            of_one = sum(other.owner == asked.owner for other in self._running)
            if len(self._running) >= self._most or (asked.owner and of_one >= self._most_of_one):
                return None
            lookup: Future[AddressInfos] = Future()
            # Callers that give up must not cancel it for the others.
            lookup.set_running_or_notify_cancel()
            self._running[asked] = lookup
        threading.Thread(target=self._run, args=(asked, lookup), name="lookup", daemon=True).start()
        return lookup

    def _run(self, asked: _LookupKey, lookup: Future[AddressInfos]) -> None:
        try:
            found = socket.getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            self._end(asked)
            lookup.set_exception(exc if isinstance(exc, OSError) else OSError(str(exc)))
        else:
            self._end(asked)
            lookup.set_result(found)

    def _end(self, asked: _LookupKey) -> None:
        with self._lock:
            del self._running[asked]


# Shared by the process.
RESOLVER = NameResolver()
