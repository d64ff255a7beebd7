"""Files of a replica. The functions that open a file check its format and length.

directory/current       name of the current generation
directory/<generation>/ an LMDB environment (data.mdb, lock.mdb)
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import lmdb

from nac.cellformat.replica.records import DATABASES, FORMAT
from nac.kit.clock import epoch_microseconds

CURRENT = "current"
# Address space, not disk space: the file grows with its records. The address space is so large that no reader must
# map the file again.
MAP_BYTES = 64 << 30

Databases = dict[str, "lmdb._Database"]


class ReplicaError(Exception):
    """The replica cannot be used."""


class ReplicaMissing(ReplicaError):
    """The replica does not exist, or has another format."""


class ReplicaDamaged(ReplicaError):
    """The replica's file is damaged and must be rebuilt."""


def current_generation(directory: Path) -> str:
    """Return the name of the current generation; "" if no generation is published."""
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
    """Make `generation` current and delete all other generations.

    A reader continues with its open file until it next checks which generation is current.
    """
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
    """Open a generation. Raises ReplicaMissing if the generation has no file, and ReplicaDamaged if the file is
    incomplete."""
    try:
        environment = lmdb.open(
            str(path),
            map_size=map_bytes,
            max_dbs=len(DATABASES),
            readonly=readonly,
            create=not readonly,
            mode=0o640,
            # A power cut can lose the last commit, but never damages the file. The agent reads the lost changes again.
            metasync=False,
            # Each thread of radiusd keeps a read transaction.
            max_spare_txns=64,
        )
    except lmdb.Error as exc:
        if readonly and not (path / "data.mdb").exists():
            raise ReplicaMissing(f"no replica in {path}") from exc
        raise ReplicaDamaged(f"cannot open {path}: {exc}") from exc
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
        raise ReplicaMissing(f"the replica in {path} is empty") from exc
    except lmdb.Error as exc:
        raise ReplicaDamaged(f"cannot read {path}: {exc}") from exc
    if not create and found != str(FORMAT).encode():
        raise ReplicaMissing(f"the replica in {path} has format {found!r}, but this version reads {FORMAT}")
    return databases


def _check_length(environment: "lmdb.Environment", path: Path) -> None:
    """Check that the file is complete. Accessing a page after the end of the file would kill the process with
    SIGBUS."""
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    found = (path / "data.mdb").stat().st_size
    # A new environment has only two pages. Each of the two pages contains metadata.
    if found < needed:
        raise ReplicaDamaged(f"{path / 'data.mdb'} has {found} of {needed} bytes")


def _generations(directory: Path) -> Iterable[str]:
    return [name for name in os.listdir(directory) if name.isdecimal()]
