"""Limits the number of active and waiting tasks, and rejects further tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class GateFull(Exception):
    """Too many tasks are waiting."""


class Gate:
    def __init__(self, *, inside: int, waiting: int, shared: asyncio.Semaphore | None = None) -> None:
        """Create the gate. `shared` is an additional limit for several gates together."""
        self._inside = asyncio.Semaphore(inside)
        self._shared = shared
        self._most = inside + waiting
        self._present = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait until the task may run. If too many tasks are already waiting, raises GateFull immediately."""
        if self._present >= self._most:
            raise GateFull
        self._present += 1
        try:
            async with self._inside:
                if self._shared is None:
                    yield
                else:
                    async with self._shared:
                        yield
        finally:
            self._present -= 1
