"""Writing files where another account may own the folder."""

import os
from pathlib import Path

from cli.account import Account


def write_private(path: Path, content: str, *, owner: Account | None = None, mode: int = 0o600) -> None:
    """Replace `path` in one step. Root may write into a folder of the service account: no link is followed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        if owner:
            os.fchown(file.fileno(), owner.uid, owner.gid)
    temporary.replace(path)


def make_folder(path: Path, *, owner: Account | None, mode: int) -> None:
    """Create `path` or correct its owner and mode; refuses a link in its place."""
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(handle, mode)
        if owner:
            os.fchown(handle, owner.uid, owner.gid)
    finally:
        os.close(handle)
