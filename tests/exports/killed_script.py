"""A Python script that is killed with SIGKILL at the end of a block."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_at_the_end(script: str, *arguments: object) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    try:
        yield
    finally:
        process.kill()
        process.wait()
