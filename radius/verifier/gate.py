"""So many at once, so many in wait, and no more: what comes then is turned away instead of piling up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Full(Exception):
    """As many wait as may."""


class Gate:
    def __init__(self, *, inside: int, waiting: int, shared: asyncio.Semaphore | None = None) -> None:
        """`shared` bounds several gates together, beside what each may have inside."""
        self._inside = asyncio.Semaphore(inside)
        self._shared = shared
        self._most = inside + waiting
        self._present = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Raises Full at once where there is no room."""
        if self._present >= self._most:
            raise Full
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
