"""`./admit logs`."""

import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import TextIO

import click

from cli.fail import Refused
from cli.layout import OTHER_ACCOUNT, Layout, require_layout

_POLL_SECONDS = 0.2


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option("-n", "--lines", default=20, show_default=True, help="How many of the last lines to begin with.")
@click.argument("process", required=False)
def command(follow: bool, lines: int, process: str | None) -> None:
    """Print the end of the log of PROCESS, or of all of them."""
    found = _logs(require_layout())
    if process is not None and process not in found:
        raise Refused(f"There is no log of {process!r}.", remedy=f"There are: {', '.join(found)}.")
    chosen = {process: found[process]} if process else found
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
    """Logs of the supervised processes, and those that the cells write (radiusd's, say)."""
    if not os.access(layout.log, os.R_OK | os.X_OK):
        raise Refused(f"You may not read {layout.log}.", remedy=OTHER_ACCOUNT)
    found = {path.stem: path for path in sorted(layout.log.glob("*.log"))}
    for path in sorted((layout.var / "cells").glob("*/*.log")):
        found.setdefault(path.stem, path)
    return found


class Tail:
    """One log file, followed through rotation: the file of that name may be another one, or shorter, the next time."""

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
        # Before looking for another file of that name: what was written up to the rotation is in this one.
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
