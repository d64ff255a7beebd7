"""Making folders where another account may own the place."""

import os
from pathlib import Path

from cli.account import Account


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
