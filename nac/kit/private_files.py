"""Safe writing of files in folders of other system users."""

import os
from pathlib import Path
from typing import Protocol


class FileOwner(Protocol):
    @property
    def uid(self) -> int: ...

    @property
    def gid(self) -> int: ...


def write_private(path: Path, content: str, *, owner: FileOwner | None = None, mode: int = 0o600) -> None:
    """Replace the file at `path` atomically.

    Does not follow symbolic links, because root can call this function for a folder that the service user controls.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if owner:
                os.fchown(file.fileno(), owner.uid, owner.gid)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
