"""What pytest's processes would each make for itself, made once while they collect the tests: a migrated cluster."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.postgres import PREPARED, Cluster


class Preparation:
    """Under way from the start; who needs it waits (tests.postgres). Where it fails they make their own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="admit-prepared-"))
        # A cluster's own folder is closed to others, and its owner has to reach it.
        self._folder.chmod(0o755)
        os.environ[PREPARED] = str(self._folder / "data")
        command = [sys.executable, "-m", "tests.preparing", self._folder]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[1])

    def close(self) -> None:
        del os.environ[PREPARED]
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> None:
    folder = Path(sys.argv[1])
    del os.environ[PREPARED]
    cluster = Cluster()
    try:
        cluster.start()
        cluster.become_prepared(folder / "data")
    except BaseException:
        shutil.rmtree(folder)
        raise
    finally:
        cluster.remove()


if __name__ == "__main__":
    main()
