"""The verifier's process: told on standard input what it needs, tells on standard output how it goes.

It ends when its standard input does, so it never outlives the agent that owns it.
"""

import asyncio
import logging
import os
import resource
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from nac.identities.reach import Reach
from nac.replica.store import ReplicaReader
from nac.secrets import MasterKeyFile, Sealer
from radius.verifier.report import Orders, Report
from radius.verifier.server import Server, listen
from radius.verifier.sources import LiveSources
from radius.verifier.verifier import Verifier

REPORT_SECONDS = 1.0
# Look-ups of host names, which may hang, have threads of their own.
_RESOLVERS = 32


async def serve(orders: Orders) -> None:
    """Until standard input ends."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolver"))
    sources = LiveSources(Sealer(MasterKeyFile(Path(orders.cell_key_file))), Reach.parse(orders.reach))
    verifier = Verifier(ReplicaReader(orders.replica_directory), sources)
    server = Server(orders.secret.encode(), verifier.verify, reject_delay_seconds=orders.reject_delay_seconds)
    transport = await listen(server, socket.socket(fileno=orders.socket))
    ended = loop.create_task(_end_of_input(loop))
    try:
        while not ended.done():
            await verifier.tidy()
            _tell(Report(dict(server.counters), dict(sources.trouble())))
            await asyncio.wait((ended,), timeout=REPORT_SECONDS)
    finally:
        transport.abort()
    # A thread may hang in the look-up of a name, and the next agent needs the port.
    os._exit(0)


async def _end_of_input(loop: asyncio.AbstractEventLoop) -> None:
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        continue


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    # A core file would hold passwords.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # One line; what follows is only its end.
    orders = msgspec.json.decode(_first_line(), type=Orders)
    asyncio.run(serve(orders))


def _first_line() -> bytes:
    """Past Python's buffer: the loop reads on from there."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 1)
        if not piece:
            raise SystemExit("no orders on standard input; the agent starts this")
        line += piece
    return line


if __name__ == "__main__":
    main()
