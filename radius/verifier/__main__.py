"""The verifier's process: reads settings from standard input, and writes reports to standard output.

The agent stops the verifier by a signal. If standard input closes without a signal, the agent was killed. The verifier
then serves until the next agent has started its own verifier, which binds the same port (SO_REUSEPORT).
"""

import asyncio
import logging
import os
import resource
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from nac.cellformat.replica.store import ReplicaReader
from nac.inventory.identity_sources.settings import MAX_LOGIN_SECONDS
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.verifier.agent_messages import VerifierReport, VerifierSettings
from radius.verifier.forecast import RejectForecast
from radius.verifier.server import VerifierServer, listen
from radius.verifier.sources import LiveSources
from radius.verifier.verifier import Verifier

REPORT_SECONDS = 1.0
# Time to serve without an agent. After that, another machine may own the cell (SILENT_SECONDS of nac.tenancy.cells).
ORPHANED_SECONDS = 60.0
_POLL_SECONDS = 0.2
LOOPBACK, _DISCARD_PORT = "127.0.0.1", 9
# Number of threads for lookups of host names, which may hang.
_RESOLVERS = 32


async def serve(orders: VerifierSettings) -> None:
    """Serve until standard input closes or the agent sends a signal."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolver"))
    sources = LiveSources(Sealer(MasterKeyFile(Path(orders.cell_key_file))), OutboundReach.parse(orders.reach))
    replica = ReplicaReader(orders.replica_directory)
    verifier = Verifier(replica, sources)
    server = VerifierServer(
        orders.secret.encode(),
        verifier.verify,
        reject_delay_seconds=orders.reject_delay_seconds,
        expect_reject=RejectForecast(replica).is_reject,
    )
    sock = socket.socket(fileno=orders.socket)
    await listen(server, sock)
    pid_file = Path(orders.pid_file)
    pid_file.write_text(str(os.getpid()))
    ended = loop.create_task(_wait_for_end_of_input(loop))
    with suppress(BrokenPipeError):
        while not ended.done():
            await verifier.tidy()
            _send_report(VerifierReport(dict(server.counters), dict(sources.trouble())))
            await asyncio.wait((ended,), timeout=REPORT_SECONDS)
    alone_until = loop.time() + ORPHANED_SECONDS
    while loop.time() < alone_until and _owns_pid_file(pid_file):
        await verifier.tidy()
        await asyncio.sleep(_POLL_SECONDS)
    await _drain(server, sock)
    # End without waiting for threads: a thread may hang in a name lookup, and the next agent needs the port.
    os._exit(0)


def _owns_pid_file(pid_file: Path) -> bool:
    try:
        return pid_file.read_text() == str(os.getpid())
    except FileNotFoundError:
        return False


async def _drain(server: VerifierServer, sock: socket.socket) -> None:
    """Connect the socket to an unused port, so that it receives no new requests, and answer pending requests."""
    sock.connect((LOOPBACK, _DISCARD_PORT))
    end = asyncio.get_running_loop().time() + MAX_LOGIN_SECONDS
    await asyncio.sleep(_POLL_SECONDS)
    while not server.is_idle and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(_POLL_SECONDS)


async def _wait_for_end_of_input(loop: asyncio.AbstractEventLoop) -> None:
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        continue


def _send_report(report: VerifierReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    # A core file would contain passwords.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The first line has the settings. After it, the agent only keeps standard input open.
    orders = msgspec.json.decode(_read_first_line(), type=VerifierSettings)
    asyncio.run(serve(orders))


def _read_first_line() -> bytes:
    """Read the first line without Python's buffer, because the event loop reads the rest."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 1)
        if not piece:
            raise SystemExit("No settings on standard input. Only the agent can start this program.")
        line += piece
    return line


if __name__ == "__main__":
    main()
