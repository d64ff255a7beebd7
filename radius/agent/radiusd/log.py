"""Follows radiusd's log: counts dropped packets, forwards lines of the module, and limits the file's size."""

import re
from collections import Counter
from pathlib import Path

MAX_LOG_BYTES = 16 << 20
READ_BYTES = 1 << 20
# Lines that one poll forwards, so that a fault in every packet does not occupy the agent. radiusd's log has all lines.
MAX_LINES = 100

# Texts of FreeRADIUS 3.2.7/3.2.8: src/lib/radius.c (rad_verify), src/main/listen.c, src/main/process.c. radiusd prints
# each text at most once a second. The texts name the cause; radiusd's statistics (radius/agent/radiusd/probe.py) have
# the number of packets.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # radius/module/unsigned.py logs each address once a minute; radiusd itself logs nothing.
    ("missing_message_authenticator", re.compile(r"admit: unsigned")),
    ("bad_message_authenticator", re.compile(r"invalid Message-Authenticator")),
    ("bad_request_authenticator", re.compile(r"invalid Request Authenticator")),
    ("unknown_client", re.compile(r"from unknown client")),
    ("duplicate_in_progress", re.compile(r"Ignoring duplicate packet")),
    ("journal_refused", re.compile(r"admit: journal-refused")),
    ("not_ready", re.compile(r"admit: not-ready")),
    ("internal_error", re.compile(r"admit: internal-error")),
)
# Lines that name a slot and an address. rad_verify, radius/module/secret_lookup.py, unsigned.py and cell.py write them.
SOURCE_PATTERNS: dict[str, re.Pattern[str]] = {
    "wrong_secret": re.compile(
        r"packet from (?P<source>[0-9A-Fa-f.:]+?):? .*Shared secret is incorrect.*\(from client slot-(?P<slot>\d+)"
    ),
    "unsigned": re.compile(r"admit: unsigned slot=(?P<slot>\d+) source=(?P<source>[0-9A-Fa-f.:]+)"),
    "conversations_full": re.compile(r"admit: conversations-full slot=(?P<slot>\d+) source=(?P<source>[0-9A-Fa-f.:]+)"),
}
_NAMES_SOURCE = re.compile(r"admit: (unsigned|conversations-full) ")
# Limit of sources stored for each cause, against floods with forged addresses.
_MAX_SOURCES = 100


class LogFollower:
    """Reads lines appended to `path`.

    If the file is shorter than before, reading starts at the beginning of the file.
    """

    def __init__(self, path: Path, counters: Counter[str]) -> None:
        self._path = path
        self._counters = counters
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = b""
        # Slots and addresses since the last `take`, by name of SOURCE_PATTERNS.
        self._sources: dict[str, set[tuple[int, str]]] = {name: set() for name in SOURCE_PATTERNS}

    def take(self, name: str) -> set[tuple[int, str]]:
        """Return the slots (port pairs) and addresses in log lines since the last call.

        `name` selects the lines by their pattern in SOURCE_PATTERNS. Thread-safe.
        """
        taken, self._sources[name] = self._sources[name], set()
        return set(taken)

    def poll(self) -> list[str]:
        """Count the new lines. Returns the module's lines, without radiusd's prefix, for the agent's log."""
        ours: list[str] = []
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return ours
        if size < self._offset:
            self._offset = 0
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            # Read to the end: after the file is emptied, unread lines could not be counted.
            while data := file.read(READ_BYTES):
                self._take(data, ours)
        if self._offset > MAX_LOG_BYTES and not self._partial:
            self._rotate()
        return ours

    def _take(self, data: bytes, ours: list[str]) -> None:
        self._offset += len(data)
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()[-4096:]
        for line in lines:
            self._count(line.decode("utf-8", "replace"), ours)

    def _count(self, line: str, ours: list[str]) -> None:
        for name, pattern in _PATTERNS:
            if pattern.search(line):
                self._counters[name] += 1
                break
        if "admit: " not in line and "Shared secret" not in line:
            return
        for name, pattern in SOURCE_PATTERNS.items():
            if len(self._sources[name]) < _MAX_SOURCES and (match := pattern.search(line)):
                self._sources[name].add((int(match["slot"]), match["source"]))
        # Lines that name a source are not forwarded: the agent logs the source with tenant and remedy.
        if "admit: " in line and len(ours) < MAX_LINES and not _NAMES_SOURCE.search(line):
            ours.append(line.partition("admit: ")[2])

    def _rotate(self) -> None:
        """Copy the log to a second file and empty it.

        radiusd appends (O_APPEND), so radiusd continues at the beginning of the file.
        """
        kept = self._path.with_suffix(".1.log")
        kept.write_bytes(self._path.read_bytes()[-MAX_LOG_BYTES:])
        with open(self._path, "r+b") as file:
            file.truncate(0)
        self._offset = 0
