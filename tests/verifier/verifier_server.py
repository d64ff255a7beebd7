"""Verifiers for tests: a thread of this process whose responses a test sets, and the process that an agent runs."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd.verifier_process import VerifierProcess
from radius.verifier.server import VerifierServer, VerifyLogin, listen
from tests.polling import until

T = TypeVar("T")


@dataclass
class RunningVerifier:
    loop: asyncio.AbstractEventLoop
    server: VerifierServer
    # Every verified login: slot, name, password.
    asked: list[tuple[int, bytes, bytes]] = field(default_factory=list)

    def wait_for_logins(self, count: int) -> None:
        """Wait until `count` logins have arrived."""
        until(lambda: len(self.asked) >= count, f"{count} logins at the verifier")

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the verifier's own thread."""
        done: asyncio.Future[T] = asyncio.run_coroutine_threadsafe(_later(function), self.loop)
        return done.result(10)


async def _later(function):
    return function()


@contextmanager
def running_verifier(port: int, secret: str, verify: VerifyLogin) -> Iterator[RunningVerifier]:
    loop = asyncio.new_event_loop()

    async def recorded(slot: int, name: bytes, password: bytes):
        running.asked.append((slot, name, password))
        return await verify(slot, name, password)

    running = RunningVerifier(loop, VerifierServer(secret.encode(), recorded))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))
    transport = loop.run_until_complete(listen(running.server, sock))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield running
    finally:
        running.call(transport.abort)
        running.call(lambda: [task.cancel() for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()])
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def always(answer: VerificationResult) -> VerifyLogin:
    async def verify(slot: int, name: bytes, password: bytes) -> VerificationResult:
        return answer

    return verify


@contextmanager
def kept_verifier(paths: CellPaths, port: int, alarms: Alarms, **options) -> Iterator[VerifierProcess]:
    """The process of a verifier, run as the agent runs it."""
    process = VerifierProcess(port, paths, alarms, **options)
    stop = threading.Event()
    thread = threading.Thread(target=process.run, args=(stop,))
    thread.start()
    try:
        yield process
    finally:
        stop.set()
        thread.join()
