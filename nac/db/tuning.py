"""Settings of a PostgreSQL that is ours alone, by the size of its machine."""

from typing import Final

_MEGABYTE: Final = 1 << 20
_LEAST_BUFFERS: Final = 256 * _MEGABYTE
_MOST_BUFFERS: Final = 4096 * _MEGABYTE


def tuning(memory_bytes: int) -> dict[str, str]:
    """An eighth of its memory for buffers: sessions that live by the million are changed all over their table and its
    indexes, and each page that is not in there is a call to the kernel."""
    buffers = min(max(memory_bytes // 8, _LEAST_BUFFERS), _MOST_BUFFERS)
    return {"shared_buffers": f"{buffers // _MEGABYTE}MB", "max_wal_size": "2GB", "wal_compression": "on"}
