"""The demo board as part of `up`: run when something was started anew, else shown as it was."""

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from cli.files import write_private
from cli.layout import Layout
from cli.progress import Progress
from nac.clock import utc_now


class _Tee(io.TextIOBase):
    """Shows what is printed and keeps it."""

    def __init__(self, shown: TextIO) -> None:
        self._shown = shown
        self.kept = io.StringIO()

    def write(self, text: str) -> int:
        self.kept.write(text)
        return self._shown.write(text)

    def flush(self) -> None:
        self._shown.flush()


def show(layout: Layout, progress: Progress, *, anew: bool) -> int:
    """Exit status of the board: 0 when every row is as expected. Only such a board is kept and shown again."""
    stored = _stored(layout)
    if not anew and stored.exists():
        progress.note("Nothing was started anew, so this is the board as it was. Run it again: ./admit demo")
        sys.stdout.write(stored.read_text(encoding="utf-8"))
        return 0
    stored.unlink(missing_ok=True)
    # Here, because it loads the database libraries and the whole domain.
    from cli.demo import board

    tee = _Tee(sys.stdout)
    with redirect_stdout(tee):
        status = board.main(json=False)
    if status == 0:
        heading = f"\nBoard of {utc_now():%Y-%m-%d %H:%M:%S} UTC\n"
        write_private(stored, heading + tee.kept.getvalue())
    return status


def _stored(layout: Layout) -> Path:
    return layout.var / "demo-board.txt"
