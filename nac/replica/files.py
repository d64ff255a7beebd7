"""Where a replica's files lie, and opening them without trusting them.

directory/current       name of the generation that readers use
directory/<generation>/ an LMDB environment (data.mdb, lock.mdb)
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import lmdb

from nac.clock import epoch_microseconds
from nac.replica.records import DATABASES, FORMAT

CURRENT = "current"
# Address space, not disk: the file grows only with its records, so neither side ever has to remap under a reader.
MAP_BYTES = 64 << 30

Databases = dict[str, "lmdb._Database"]


class ReplicaError(Exception):
    """The replica cannot be used."""


class ReplicaMissing(ReplicaError):
    """There is no replica yet, or none in this format."""


class ReplicaDamaged(ReplicaError):
    """The replica's file is broken; only a rebuild mends it."""


def current_generation(directory: Path) -> str:
    """Name of the generation in use, "" where there is none."""
    try:
        name = (directory / CURRENT).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as exc:
        raise ReplicaDamaged(f"{directory / CURRENT} is not text") from exc
    return name if name.isdecimal() else ""


def create_generation(directory: Path) -> str:
    newest = max((int(name) for name in _generations(directory)), default=0)
    generation = f"{max(epoch_microseconds(), newest + 1):020d}"
    (directory / generation).mkdir(mode=0o750)
    return generation


def publish_generation(directory: Path, generation: str) -> None:
    """Make `generation` the one in use and remove all others; readers keep what they have open until they look."""
    fresh = directory / f"{CURRENT}.new"
    with fresh.open("w", encoding="ascii") as file:
        file.write(generation)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(directory / CURRENT)
    delete_generations(directory, keep=generation)


def delete_generations(directory: Path, *, keep: str) -> None:
    for name in _generations(directory):
        if name != keep:
            shutil.rmtree(directory / name, ignore_errors=True)


def open_environment(path: Path, *, readonly: bool, map_bytes: int = MAP_BYTES) -> "lmdb.Environment":
    """Raises ReplicaMissing where there is no file, ReplicaDamaged where there is no whole one."""
    try:
        environment = lmdb.open(
            str(path),
            map_size=map_bytes,
            max_dbs=len(DATABASES),
            readonly=readonly,
            create=not readonly,
            mode=0o640,
            # A power cut may cost the last commit, never the file; its changes are then read again.
            metasync=False,
            # Each of radiusd's threads keeps a read transaction ready.
            max_spare_txns=64,
        )
    except lmdb.Error as exc:
        if readonly and not (path / "data.mdb").exists():
            raise ReplicaMissing(f"no replica at {path}") from exc
        raise ReplicaDamaged(f"{path} does not open: {exc}") from exc
    try:
        _check_length(environment, path)
    except ReplicaDamaged:
        environment.close()
        raise
    return environment


def open_databases(environment: "lmdb.Environment", path: Path, *, create: bool = False) -> Databases:
    try:
        databases = {name: environment.open_db(name.encode(), create=create) for name in DATABASES}
        with environment.begin() as transaction:
            found = transaction.get(b"format", db=databases["meta"])
    except lmdb.NotFoundError as exc:
        raise ReplicaMissing(f"the replica at {path} was never filled") from exc
    except lmdb.Error as exc:
        raise ReplicaDamaged(f"{path} does not read: {exc}") from exc
    if not create and found != str(FORMAT).encode():
        raise ReplicaMissing(f"the replica at {path} has format {found!r}, this software reads {FORMAT}")
    return databases


def _check_length(environment: "lmdb.Environment", path: Path) -> None:
    """A page beyond the end of a truncated file would kill the process with SIGBUS: it must not be touched at all."""
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    found = (path / "data.mdb").stat().st_size
    # A fresh environment has written its two meta pages only.
    if found < needed:
        raise ReplicaDamaged(f"{path / 'data.mdb'} holds {found} bytes of {needed}")


def _generations(directory: Path) -> Iterable[str]:
    return [name for name in os.listdir(directory) if name.isdecimal()]
