"""Where records go that cannot be stored: a file in the journal's own format, to be shipped once they can."""

import os
from pathlib import Path
from zlib import crc32

from nac.journal.segment import FRAME, HEADER

MAX_BYTES = 64 << 20


class Quarantine:
    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, payload: memoryview) -> None:
        """On disk when this returns. A full file takes no more: the alarm that goes with each record still counts."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            size = os.fstat(descriptor).st_size
            if size >= MAX_BYTES:
                return
            frame = FRAME.pack(len(payload), crc32(payload)) + payload
            os.write(descriptor, frame if size else HEADER + frame)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
