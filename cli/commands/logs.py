"""`./admit logs`."""

import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import TextIO

import click

from cli.errors import Refused
from cli.layout import OTHER_ACCOUNT_REMEDY, Layout, require_layout
from nac.kit.errors import InvalidInput

_POLL_SECONDS = 0.2


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Also show new lines until Ctrl-C.")
@click.option("-n", "--lines", default=20, show_default=True, help="Number of last lines of the log to show.")
@click.argument("process", required=False)
def command(follow: bool, lines: int, process: str | None) -> None:
    """Show the last lines of the log of PROCESS, or of all logs."""
    logs = _logs(require_layout())
    if process is not None and process not in logs:
        raise InvalidInput(f"Unknown log {process!r}.", place="PROCESS", remedy=f"Use one of: {', '.join(logs)}.")
    chosen = {process: logs[process]} if process else logs
    width = max(map(len, chosen), default=0)
    tails = [Tail(path, f"{name:<{width}} | " if len(chosen) > 1 else "") for name, path in chosen.items()]
    for tail in tails:
        tail.print_last(lines)
    while follow:
        for tail in tails:
            tail.print_new()
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)


def _logs(layout: Layout) -> dict[str, Path]:
    """Return the log files of the supervised processes, and of the cells' processes, such as radiusd."""
    if not os.access(layout.log, os.R_OK | os.X_OK):
        raise Refused(f"No permission to read {layout.log}.", remedy=OTHER_ACCOUNT_REMEDY)
    logs = {path.stem: path for path in sorted(layout.log.glob("*.log"))}
    for path in sorted((layout.var / "cells").glob("*/*.log")):
        logs.setdefault(path.stem, path)
    return logs


class Tail:
    """Reads new lines of a log file, also after a rotation, which replaces or truncates the file."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._path = path
        self._prefix = prefix
        self._file: TextIO | None = None

    def print_last(self, count: int) -> None:
        self._file = self._path.open(encoding="utf-8", errors="replace")
        for line in deque(self._file, maxlen=count):
            self._print(line)

    def print_new(self) -> None:
        if self._file is None:
            self._file = self._path.open(encoding="utf-8", errors="replace")
        # Read the rest of the old file before switching to the new file.
        for line in self._file:
            self._print(line)
        if self._was_replaced(self._file):
            self._file.close()
            self._file = None

    def _was_replaced(self, file: TextIO) -> bool:
        opened = os.fstat(file.fileno())
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return False
        return named.st_ino != opened.st_ino or named.st_size < file.tell()

    def _print(self, line: str) -> None:
        sys.stdout.write(f"{self._prefix}{line.rstrip()}\n")
