"""Lightweight API clients: HTTP/1.1 over persistent connections."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtest.processes import BenchError

_PATIENCE_SECONDS = 60
_WORST = 5


@dataclass(slots=True)
class RequestTimings:
    seconds: float = 0.0
    # Response times in milliseconds, by path.
    milliseconds: list[tuple[float, str]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def at(self, share: float) -> float:
        ordered = sorted(each for each, _ in self.milliseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    @property
    def rate(self) -> float:
        return len(self.milliseconds) / self.seconds

    @property
    def worst(self) -> list[tuple[float, str]]:
        return sorted(self.milliseconds, reverse=True)[:_WORST]

    def require_success(self) -> None:
        if set(self.statuses) - {200}:
            raise BenchError(f"the API returned {dict(self.statuses)}")


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, token: str) -> tuple[int, bytes]:
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].split("\r\n", 1)[0])
    return int(head.split(" ", 2)[1]), await reader.readexactly(length)


async def _run_clients(
    port: int, token: str, next_path: Callable[[], str | None], clients: int, seconds: float, timing: RequestTimings
) -> None:
    deadline = time.monotonic() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        while time.monotonic() < deadline and (path := next_path()) is not None:
            began = time.perf_counter()
            status, _ = await asyncio.wait_for(_get(reader, writer, path, token), _PATIENCE_SECONDS)
            timing.milliseconds.append(((time.perf_counter() - began) * 1000, path))
            timing.statuses[status] += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    timing.seconds = time.perf_counter() - began


def run_load(
    port: int, token: str, next_path: Callable[[], str | None], *, clients: int, seconds: float = 3_600
) -> RequestTimings:
    """Run `clients` concurrent clients until no path is left or the time is over."""
    timing = RequestTimings()
    asyncio.run(_run_clients(port, token, next_path, clients, seconds, timing))
    return timing


def count_requests_until_found(port: int, token: str, path: str, *, most: int) -> tuple[int, float]:
    """Request pages until a row is found or all rows are searched, with at most `most` requests.

    Returns the number of requests and milliseconds.
    """

    async def ask() -> tuple[int, float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        began, after, turns = time.perf_counter(), "", 0
        while turns < most:
            separator = "&" if "?" in path else "?"
            status, body = await _get(reader, writer, f"{path}{separator}after={after}", token)
            if status != 200:
                raise BenchError(f"GET {path} returned {status}: {body[:300]!r}")
            turns, page = turns + 1, json.loads(body)
            if page["items"] or page["next"] is None:
                break
            after = page["next"]
        writer.close()
        return turns, (time.perf_counter() - began) * 1000

    return asyncio.run(ask())
