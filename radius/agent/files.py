"""The agent's own small JSON files. They are written on a full disk too: that is when people look at them."""

import errno
import os
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def write_small(path: Path, content: bytes) -> None:
    """Whole or not at all, by rename; where there is no room for a second file, over the old one."""
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        if exc.errno not in NO_ROOM or not path.exists():
            raise
        _write_over(path, content)


def _write_over(path: Path, content: bytes) -> None:
    """In the block that the file has. Blanks fill it up: JSON does not mind them."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        padded = content.ljust(os.fstat(descriptor).st_size)
        if os.pwrite(descriptor, padded, 0) != len(padded):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)
