"""Command that compares or writes a page of docs/reference that a module generates."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


class GeneratedPage(NamedTuple):
    name: str
    # Module that generates the page with `python -m`.
    module: str
    lines: Callable[[], Iterable[str]]

    @property
    def path(self) -> Path:
        return _FOLDER / self.name

    @property
    def remedy(self) -> str:
        return f".venv/bin/python -m {self.module} --write"

    def render(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def run_command(self) -> int:
        """Write the page if the arguments contain `--write`, otherwise compare the page with the code.

        Returns the exit code.
        """
        if "--write" in sys.argv[1:]:
            self.path.write_text(self.render(), encoding="utf-8")
            return 0
        same = self.path.exists() and self.path.read_text(encoding="utf-8") == self.render()
        print(f"{self.name} matches the code" if same else f"{self.name} does not match the code: {self.remedy}")
        return 0 if same else 1
