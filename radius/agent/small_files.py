"""Small JSON files of the agent.

The agent can write these files even if the disk is full, because people need the files to find the fault.
"""

import errno
import os
from pathlib import Path

NO_SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def write_small_file(path: Path, content: bytes) -> None:
    """Write the file atomically by rename.

    If the disk has no space for a second file, overwrites the old file in place.
    """
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as exc:
        temporary.unlink(missing_ok=True)
        if exc.errno not in NO_SPACE_ERRORS or not path.exists():
            raise
        _overwrite(path, content)


def _overwrite(path: Path, content: bytes) -> None:
    """Overwrite the file within its disk block, padded with blanks, which JSON ignores."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        padded = content.ljust(os.fstat(descriptor).st_size)
        if os.pwrite(descriptor, padded, 0) != len(padded):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)
