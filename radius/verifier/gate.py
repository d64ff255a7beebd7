"""Bounded concurrency: limits active and waiting tasks, and rejects more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class GateFull(Exception):
    """The limit of waiting tasks is reached."""


class Gate:
    def __init__(self, *, inside: int, waiting: int, shared: asyncio.Semaphore | None = None) -> None:
        """`shared` limits several gates together, beside their own limits."""
        self._inside = asyncio.Semaphore(inside)
        self._shared = shared
        self._most = inside + waiting
        self._present = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait for a place. Raises Full at once if too many wait."""
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
