"""Settings of a dedicated PostgreSQL, by the memory of its machine."""

from typing import Final

_MEGABYTE: Final = 1 << 20
_MIN_BUFFERS: Final = 256 * _MEGABYTE
_MAX_BUFFERS: Final = 4096 * _MEGABYTE


def compute_server_settings(memory_bytes: int) -> dict[str, str]:
    """Use an eighth of memory for buffers. Millions of live sessions change throughout their table and indexes, and
    each page outside of the buffers costs a system call.
    """
    buffers = min(max(memory_bytes // 8, _MIN_BUFFERS), _MAX_BUFFERS)
    return {"shared_buffers": f"{buffers // _MEGABYTE}MB", "max_wal_size": "2GB", "wal_compression": "on"}
