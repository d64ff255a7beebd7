"""A reader in its own process, because LMDB opens a file once per process. It receives its reads line by line."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = """
import sys
from nac.cellformat.replica.store import ReplicaReader
reader = ReplicaReader(sys.argv[1])
for line in sys.stdin:
    try:
        with reader.begin() as view:
            print(repr(eval(line, {"view": view})), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""


class ReaderProcess:
    def __init__(self, directory):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def evaluate(self, expression):
        """Evaluate `expression` over `view` in that process, and return its repr."""
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
