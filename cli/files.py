"""Creates files and folders, and changes owners, without following links.

Also reads secrets and passwords from files that a command names.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from cli.account import Account
from cli.errors import Refused, require_utf8


def first_line(file: TextIO | None) -> str | None:
    """Return the first line of a file that contains a secret."""
    if file is None:
        return None
    with require_utf8(file.name):
        return file.readline().rstrip("\r\n")


def read_password_file(path: Path) -> str:
    """Return the password in the first line of a file. Raises InvalidInput."""
    try:
        password = path.read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
    except (OSError, UnicodeDecodeError) as exc:
        raise Refused("Cannot read the password file.", place=str(path)) from exc
    # `pki.bundles` also checks the length, but only after Admit has issued the certificate.
    if len(password) < 8:
        raise Refused("The password is shorter than 8 characters.", place=str(path))
    return password


@contextmanager
def create_file(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """Create a file, which is safely on disk after the block. If the block or a write fails, deletes the file.

    Raises Refused if the file exists, or cannot be created or written.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    except OSError as exc:
        raise Refused(f"Cannot create the file: {exc.strerror}.", place=str(path)) from exc
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        path.unlink(missing_ok=True)
        raise Refused(f"Cannot write the file: {exc.strerror}.", place=str(path)) from exc
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def make_folder(path: Path, *, owner: Account | None, mode: int) -> None:
    """Create the folder `path` if missing, and set its owner (None: the caller) and mode. Rejects a symbolic link."""
    path.mkdir(mode=mode & 0o777, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, owner.uid if owner else os.geteuid(), owner.gid if owner else os.getegid())
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def chown_tree(folder: Path, owner: Account, *, group_reads: bool = False) -> None:
    """Make `owner` the owner of everything in `folder`.

    With `group_reads`, the group can read all files, and new files get the same group.
    """
    for _, folders, files, handle in os.fwalk(folder):
        os.fchown(handle, owner.uid, owner.gid)
        if group_reads:
            os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | stat.S_ISGID | 0o050)
        # os.walk lists a symbolic link to a folder as a folder.
        for name in (*folders, *files):
            os.chown(name, owner.uid, owner.gid, dir_fd=handle, follow_symlinks=False)
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if group_reads and stat.S_ISREG(status.st_mode):
                os.chmod(name, stat.S_IMODE(status.st_mode) | 0o040, dir_fd=handle)
