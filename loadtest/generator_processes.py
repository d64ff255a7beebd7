"""Several generator processes at once: where one Python process would be the bottleneck, as with TLS handshakes."""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from loadtest.processes import BenchError
from loadtest.tally import RunResult

_FORK = multiprocessing.get_context("fork")


def run_in_processes(works: Sequence[Callable[[], RunResult]]) -> RunResult:
    """The sum of what `works` counted, each run in a child of its own at the same time. One work runs right here."""
    if len(works) == 1:
        return works[0]()
    children = [_spawn(work) for work in works]
    total = RunResult()
    for number, (process, results) in enumerate(children, 1):
        try:
            total.merge(results.recv(), parallel=True)
        except EOFError as error:
            process.join()
            raise BenchError(f"generator process {number} ended with status {process.exitcode}") from error
        process.join()
    return total


def _spawn(work: Callable[[], RunResult]) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_deliver, args=(work, sender))
    process.start()
    sender.close()
    return process, receiver


def _deliver(work: Callable[[], RunResult], sender: Connection) -> None:
    sender.send(work())
    sender.close()
