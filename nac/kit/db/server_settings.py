"""Settings of a PostgreSQL server that runs only for Admit. The settings depend on the machine's memory."""

from typing import Final

_MEGABYTE: Final = 1 << 20
_MIN_BUFFERS: Final = 256 * _MEGABYTE
_MAX_BUFFERS: Final = 4096 * _MEGABYTE


def compute_server_settings(memory_bytes: int) -> dict[str, str]:
    """Return the settings for a machine with this memory. PostgreSQL's buffers get an eighth of the memory.

    Accounting of millions of live sessions changes rows in all parts of the session table and its indexes. For each
    page that is not in the buffers, PostgreSQL needs a system call.
    """
    buffers = min(max(memory_bytes // 8, _MIN_BUFFERS), _MAX_BUFFERS)
    return {"shared_buffers": f"{buffers // _MEGABYTE}MB", "max_wal_size": "2GB", "wal_compression": "on"}
