"""Files of the demo, which belong to the user of the command.

The demo writes the files after the database transaction.
"""

import os
from pathlib import Path

from cli.account import Account, find_account, is_root
from cli.files import make_folder
from nac.kit.private_files import write_private


def file_owner() -> Account | None:
    """Return the owner of the demo's files: with sudo, the user who called sudo."""
    name = os.environ.get("SUDO_USER")
    return find_account(name) if name and is_root() else None


class FileWriter:
    def __init__(self) -> None:
        self._pending: dict[Path, str] = {}

    def add(self, path: Path, content: bytes | str) -> None:
        self._pending[path] = content if isinstance(content, str) else content.decode()

    def write(self) -> None:
        """Write changed files, which only the owner can read."""
        account = file_owner()
        for path, content in self._pending.items():
            make_folder(path.parent, owner=account, mode=0o700)
            if read_text(path) != content:
                write_private(path, content, owner=account)
        self._pending.clear()


def read_text(path: Path) -> str:
    """Return the content of the file; "" if the file does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
