"""Work that is shared by pytest's processes, done once during collection: a migrated cluster."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.postgres import PREPARED, Cluster


class Preparation:
    """Runs from the start of pytest, and tests wait for it (tests.postgres).

    If it fails, each process creates its own cluster.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="admit-prepared-"))
        # The folder of a cluster is closed to other users, and its owner must be able to enter it.
        self._folder.chmod(0o755)
        os.environ[PREPARED] = str(self._folder / "data")
        command = [sys.executable, "-m", "tests.preparation", self._folder]
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
