"""Builds the portal from portal/ into portal/dist, which the API serves.

A build runs only if the sources changed since the last build.
"""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.layout import CHECKOUT
from cli.node import install_packages, run_program

FOLDER: Final = CHECKOUT / "portal"
BUILT: Final = FOLDER / "dist"
_DIGEST_FILE: Final = BUILT / ".digest"
# Folders and files that a build or a check of the types creates.
_CREATED: Final = frozenset({"node_modules", "dist", "dist.new", "openapi.json", "schema.d.ts"})


def digest_sources() -> str:
    """Return a hash of the portal's sources."""
    digest = hashlib.sha256()
    for path in _list_sources(FOLDER):
        digest.update(f"{path.relative_to(FOLDER)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _list_sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _CREATED:
            continue
        if path.is_dir():
            yield from _list_sources(path)
        else:
            yield path


def read_digest() -> str:
    """Return the hash of the sources of the last build; "" if the portal was never built."""
    try:
        return _DIGEST_FILE.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def is_built() -> bool:
    """Whether portal/dist is a build of the current sources."""
    return read_digest() == digest_sources()


def build() -> None:
    """Build the portal. If the build fails, the last build stays. Raises NodeFailed."""
    link_packages(development=False)
    created = FOLDER / "dist.new"
    shutil.rmtree(created, ignore_errors=True)
    run_tool("vite", "build", "--outDir", created.name, "--emptyOutDir")
    (created / _DIGEST_FILE.name).write_text(digest_sources(), encoding="utf-8")
    # The user of the process `api` reads the files, whatever the caller's umask is.
    for path in (created, *created.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(BUILT, ignore_errors=True)
    created.rename(BUILT)


def link_packages(*, development: bool) -> None:
    """Install the portal's npm packages, and link them as portal/node_modules. Raises NodeFailed."""
    packages = install_packages(FOLDER, name="portal", development=development)
    link = FOLDER / "node_modules"
    if link.is_symlink() and link.readlink() == packages:
        return
    if link.is_symlink():
        link.unlink()
    link.symlink_to(packages)


def run_tool(program: str, *arguments: str) -> None:
    """Run a program of the portal's npm packages in portal/. Raises NodeFailed."""
    run_program(FOLDER / "node_modules" / ".bin" / program, *arguments, folder=FOLDER)
