"""DNS names that get no response delay no others, and use a limited number of threads."""

import asyncio
import socket
import threading
from collections import Counter

import pytest

from nac.kit.outbound.reach import NameResolver
from tests.polling import PATIENCE_SECONDS

DEAD = "dead.example"


@pytest.fixture
def lookup_counts(monkeypatch):
    """Count the lookups of each name. Names below DEAD get no response during the test."""
    lookup_counts: Counter[str] = Counter()
    is_over = threading.Event()

    def getaddrinfo(host, port, **given):
        if given.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "no number")
        lookup_counts[host] += 1
        if host.endswith(DEAD):
            is_over.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield lookup_counts
    is_over.set()
    for thread in threading.enumerate():
        if thread.name == "lookup":
            thread.join(PATIENCE_SECONDS)


async def start_abandoned_lookups(names: NameResolver, count: int, **given: str) -> None:
    """Look up this number of names whose callers have stopped waiting."""
    tasks = [asyncio.create_task(names.look_up(f"{number}.{DEAD}", 443, **given)) for number in range(count)]
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_dead_names_of_one_owner_block_no_other_owner(lookup_counts: Counter[str]):
    names = NameResolver(most=16, most_of_one=3)

    async def run():
        await start_abandoned_lookups(names, 40, owner="acme")
        async with asyncio.timeout(10):
            return await names.look_up("hook.example", 443, owner="other")

    [(*_, address)] = asyncio.run(run())
    assert address == ("192.0.2.7", 443)
    assert sum(lookup_counts.values()) == 4


def test_total_number_of_lookups_is_limited(lookup_counts: Counter[str]):
    names = NameResolver(most=5, most_of_one=3)

    async def run():
        await start_abandoned_lookups(names, 40)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await names.look_up("hook.example", 443)

    asyncio.run(run())
    assert sum(lookup_counts.values()) == 5


def test_concurrent_lookups_of_a_name_are_shared(lookup_counts: Counter[str]):
    names = NameResolver(most=16, most_of_one=3)
    for _ in range(10):
        asyncio.run(start_abandoned_lookups(names, 1, owner="acme"))
    assert lookup_counts == {f"0.{DEAD}": 1}


def test_abandoned_lookup_continues_for_another_caller(monkeypatch):
    goes_on = threading.Event()

    def getaddrinfo(host, port, **given):
        if given.get("flags"):
            raise socket.gaierror
        goes_on.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def run():
        names = NameResolver()
        first, second = (asyncio.create_task(names.look_up("hook.example", 443)) for _ in range(2))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.wait([first])
        goes_on.set()
        return await second

    [(*_, address)] = asyncio.run(run())
    assert address == ("192.0.2.7", 443)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_address_needs_no_lookup(host: str):
    [(*_, address)] = asyncio.run(NameResolver(most=0).look_up(host, 443))
    assert address[:2] == (host, 443)


@pytest.mark.parametrize("host", ["no.such.name.invalid", "a" * 70, "a..b"])
def test_invalid_name_is_an_os_error(host: str):
    with pytest.raises(OSError, match=r"not known|failure|label|resolution|encoding"):
        asyncio.run(NameResolver().look_up(host, 443))
